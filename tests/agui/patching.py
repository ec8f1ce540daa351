"""Patches as an event holds them, and what does not apply."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from ag_ui.core import StateDeltaEvent

from handrail.agui._patch import Document
from handrail.errors import PatchError


def operations(*patch: dict[str, Any]) -> list[Any]:
    """The operations as an event holds them."""
    return StateDeltaEvent.model_validate({"type": "STATE_DELTA", "delta": list(patch)}).delta


def patched(value: Any, *patch: dict[str, Any]) -> Any:
    document = Document(value)
    document.patch(operations(*patch))
    return document.read()


def refused(value: Any, *patch: dict[str, Any], result: type = object) -> PatchError:
    """The error of a patch that does not apply, which leaves the value as it was."""
    document = Document(value)
    with pytest.raises(PatchError) as caught:
        document.patch(operations(*patch), result=result)
    assert json.dumps(document.read(), sort_keys=True) == json.dumps(value, sort_keys=True)
    return caught.value


def attempt(document: Document, patch: list[Any]) -> None:
    with suppress(PatchError):
        document.patch(patch)


def op(name: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **rest}


def move(source: str, target: str) -> dict[str, Any]:
    return {"op": "move", "from": source, "path": target}
