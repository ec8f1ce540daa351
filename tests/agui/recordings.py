"""Recorded streams of other people's servers."""

from __future__ import annotations

import json
import zlib
from typing import Any

from tests.conftest import SHARED

from handrail.agui._input import read_input

RECORDINGS = SHARED / "recordings"
NAMES = sorted(f"{path.parent.name}/{path.stem}" for path in RECORDINGS.glob("*/*.sse")) if RECORDINGS.is_dir() else []


def recorded(name: str) -> tuple[bytes, dict[str, Any], dict[str, Any] | None]:
    """The body without its content encoding, the options of its request, and the second opinion."""
    folder, _, scenario = name.partition("/")
    body = (RECORDINGS / f"{name}.sse").read_bytes()
    headers = json.loads((RECORDINGS / f"{name}.http.json").read_text())["headers"]
    if headers.get("content-encoding") == "gzip":
        body = zlib.decompressobj(31).decompress(body)
    asked = read_input(json.loads((RECORDINGS / f"{name}.json").read_text()), lambda record: None)
    options = {
        "thread_id": asked.thread_id,
        "run_id": asked.run_id,
        "messages": asked.messages,
        "state": asked.state,
    }
    opinions = json.loads((RECORDINGS / folder / "tsclient.json").read_text())
    return body, options, opinions.get(scenario)
