"""The JSON Schema of the protocol: documents drawn from it, and its verdict on others."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema
from tests.agui.documents import Schema
from tests.conftest import SHARED

PATH = SHARED / "conformance" / "schema.json"
NEW_IN_1_1 = frozenset({"encryptedValueType"})


@functools.cache
def loaded() -> dict[str, Any]:
    return json.loads(PATH.read_text()) if PATH.is_file() else {"$defs": {"Event": {}, "RunAgentInput": {}}}


@functools.cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": loaded()["$defs"]})


SCHEMA = Schema(loaded(), without=NEW_IN_1_1)
EVENTS, INPUTS = SCHEMA.documents("Event"), SCHEMA.documents("RunAgentInput")


def is_valid(document: dict[str, Any]) -> bool:
    return validator(SCHEMA.event(document["type"])).is_valid(document)
