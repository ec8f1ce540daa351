"""Results that are errors: some providers have a place of their own to say so."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import ToolMessage
from pydantic_ai.messages import ToolReturnPart

from handrail import Loop, assistant, user
from handrail.backends._pydantic_ai_messages import messages_out
from handrail.messages import tool_call
from handrail.testing import ScriptedBackend, call, text


def returned(message: ToolMessage) -> Any:
    """The part that a result becomes."""
    asked = assistant(tool_calls=[tool_call("f", id="c")])
    [*_, request] = messages_out([user("x"), asked, message], "openai")
    [part] = request.parts
    return part


@pytest.mark.parametrize(("error", "outcome"), [(None, "success"), ("", "success"), ("no", "failed")])
def test_an_error_is_said_to_be_one(error: str | None, outcome: str) -> None:
    """L-87, L-159: beside the content, which stays as it is."""
    part = returned(ToolMessage(id="t", tool_call_id="c", content="ValueError: no", error=error))
    assert (part.outcome, part.content, part.tool_name) == (outcome, "ValueError: no", "f")


async def test_the_error_of_a_tool() -> None:
    """L-86, L-87: an exception is one, and so is a name that nobody knows."""

    def f() -> None:
        raise ValueError("no")

    loop = Loop(backends=[ScriptedBackend([[call("f", id="c"), call("g", id="d")], [text("ok")]])], tools=[f])
    async with loop:
        outcome = await loop.run("x").result
    parts = [part for sent in messages_out(outcome.messages, "openai") for part in sent.parts]
    assert [part.outcome for part in parts if isinstance(part, ToolReturnPart)] == ["failed", "failed"]
