"""Streams for `handrail check` to look at, and the command itself."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from handrail.apps.cli import app

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
TEXT = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
TEXT_END = {"type": "TEXT_MESSAGE_END", "messageId": "m"}
UNKNOWN = {"type": "FANCY_NEW_EVENT"}


def sse(*payloads: Any) -> bytes:
    return b"".join(f"data: {json.dumps(payload)}\n\n".encode() for payload in payloads)


def lines(*payloads: Any) -> bytes:
    return b"\n".join(json.dumps(payload).encode() for payload in payloads)


def check_text(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    done = CliRunner().invoke(app, ["check", *arguments], input=stdin)
    return done.exit_code, done.stdout, done.stderr
