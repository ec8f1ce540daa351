"""Calls to client tools that a person decides about, or that the application answers itself."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.client.kit import answers, echo, finished, ids, session
from tests.transcript.events import call
from tests.transcript.reading import calls

from handrail import Tool, deny, edit
from handrail.testing import gate

# -- approvals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_tool_that_needs_an_approval_is_asked_about(is_async: bool) -> None:
    """S-72: approved, edited, refused with a reason; one question at a time."""
    asked: list[str] = []

    def judge(interrupt: Any) -> Any:
        asked.append(interrupt.tool_call_id)
        return {"c1": True, "c2": edit(interrupt, {"x": 7}), "c3": deny(interrupt, "too dear"), "c4": "maybe"}[
            interrupt.id
        ]

    async def judge_later(interrupt: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return judge(interrupt)

    made = session(
        finished(*(call(f"c{n}", '{"x":1}', name="echo") for n in (1, 2, 3, 4))), finished(),
        tools=[Tool(echo, needs_approval=True)], ask=judge_later if is_async else judge,
    )  # fmt: skip
    await made.run()
    given = answers(made.script.inputs[1])
    assert asked == ["c1", "c2", "c3", "c4"]
    assert given["c1"].content == "got 1"
    assert given["c2"].content.splitlines()[1] == "got 7"
    assert given["c3"].content == given["c3"].error == "Denied by the user: too dear"
    assert given["c4"].error.startswith("Denied by the user")
    assert [part.status for part in calls(made.transcript).values()] == ["complete", "complete", "denied", "denied"]


async def test_nobody_to_ask() -> None:
    """S-72: surfaced as if it were unregistered, and no follow-up starts."""
    made = session(finished(call("c1", name="echo")), tools=[Tool(echo, needs_approval=True)])
    assert (await made.run()).ok
    assert (len(made.script.inputs), made.pending_tool_calls) == (1, ("c1",))


async def test_asking_that_fails_refuses() -> None:
    """S-72"""

    def ask(interrupt: Any) -> Any:
        raise RuntimeError("nobody home")

    made = session(finished(call("c1", name="echo")), finished(), tools=[Tool(echo, needs_approval=True)], ask=ask)
    await made.run()
    assert "nobody home" in answers(made.script.inputs[1])["c1"].content


async def test_stopped_while_asking() -> None:
    """S-46, S-72"""
    held = gate()

    async def ask(interrupt: Any) -> bool:
        await held
        return True

    made = session(finished(call("c1", name="echo")), finished(), tools=[Tool(echo, needs_approval=True)], ask=ask)
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        made.stop()
    assert calls(made.transcript)["c1"].error == "Not executed: the run ended before this call was answered"


# -- what is left to the application -----------------------------------------------------------------------------------


async def test_a_call_without_a_tool_ends_the_exchange() -> None:
    """S-73: registered calls beside it are executed and kept."""
    made = session(finished(call("c1", name="weather"), call("c2", name="echo")), finished(), tools=[echo])
    state = await made.run()
    assert (state.ok, len(made.script.inputs), made.pending_tool_calls) == (True, 1, ("c1",))
    shown = calls(made.transcript)
    assert (shown["c1"].status, shown["c2"].status) == ("awaiting_result", "complete")


async def test_the_application_answers() -> None:
    """S-74: drawn at once, delivered by run; nothing is sent before."""
    made = session(finished(call("c1", name="ask_user"), call("c2", name="ask_user")), finished())
    await made.run()
    made.answer_tool_call("c1", "The blue one")
    made.answer_tool_call("c2", None, error="nobody knows")
    assert (len(made.script.inputs), made.pending_tool_calls) == (1, ())
    assert [(p.status, p.result, p.local) for p in calls(made.transcript).values()] == [
        ("complete", "The blue one", True),
        ("failed", "nobody knows", True),
    ]
    for call_id in ("c1", "nobody"):
        with pytest.raises(ValueError, match=call_id):
            made.answer_tool_call(call_id, 1)
    with pytest.raises(ValueError, match="c1"):
        made.answer_tool_call("c1", object())
    await made.run()
    assert ids(made.script.inputs[1]) == ["c1", "tool(c1)", "c2", "tool(c2)"]


async def test_a_value_that_cannot_be_expressed_is_refused() -> None:
    """S-74"""
    made = session(finished(call("c1", name="ask_user")))
    await made.run()
    with pytest.raises(ValueError, match="object"):
        made.answer_tool_call("c1", object())
    assert made.pending_tool_calls == ("c1",)


async def test_what_the_application_leaves_is_repaired() -> None:
    """S-57, S-73"""
    made = session(finished(call("c1", name="ask_user")), finished())
    await made.run()
    await made.run()
    assert answers(made.script.inputs[1])["c1"].error == "Not executed: no result was given for this call"
    assert made.pending_tool_calls == ()
