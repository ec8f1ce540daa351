"""What is handed in or out is a copy, all the way down: writing on it changes nothing of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ag_ui.core import AssistantMessage, TextPart, UserMessage

from handrail import FinishDelta, Loop, TextDelta, Tool, events, user
from handrail.messages import tool_call, tool_result
from handrail.testing import ScriptedBackend, call, collect, gate, text

from .kit import checked, play

ran: list[Any] = []


async def pay(opts: dict[str, int], to: list[int]) -> str:
    ran.append((dict(opts), list(to)))
    to.append(99)
    return "paid"


PAY = Tool(pay, needs_approval=True)
CALL = call("pay", {"opts": {"amount": 1}, "to": [1]}, id="c")


async def test_a_question_is_a_copy() -> None:
    """L-120, L-121, L-122, L-1: what `ask` writes on it reaches neither the call, nor the event, nor another run."""

    def ask(interrupt: Any) -> bool:
        interrupt.metadata["arguments"]["opts"]["amount"] = 10**6
        interrupt.metadata["arguments"]["to"].append(7)
        interrupt.response_schema["properties"].clear()
        return True

    ran.clear()
    got = await play(Loop(backends=[ScriptedBackend([CALL, text("fin")])], tools=[PAY], ask=ask))
    assert ran == [({"amount": 1}, [1])]
    assert [e.arguments for e in got.of(events.ToolStarted)] == [{"opts": {"amount": 1}, "to": [1]}]
    (asked,) = got.of(events.AskPending)
    assert asked.interrupt.metadata["arguments"] == {"opts": {"amount": 1}, "to": [1]}
    later = await play(Loop(backends=[ScriptedBackend([CALL])], tools=[PAY]))
    assert set(later.outcome.interrupts[0].response_schema["properties"]) == {"approved", "editedArgs", "reason"}


async def test_messages_are_copied_all_the_way_down() -> None:
    """L-4, L-141, L-143: parts, calls and their arguments, also of a steer."""
    held = gate()
    parts = UserMessage(id="u", content=[TextPart(text="one")])
    turn = AssistantMessage(id="a", tool_calls=[tool_call("look", id="k")])
    steer = UserMessage(id="s", content=[TextPart(text="more")])
    backend = ScriptedBackend([[held, text("a")], text("b")])
    async with Loop(backends=[backend]) as loop:
        run = loop.run([parts, turn, tool_result("k", "seen"), user("go")])
        await held.reached
        assert run.steer(steer)
        for message in (parts, steer):
            message.content[0].text = "changed"  # type: ignore[union-attr]
            message.content.append(TextPart(text="two"))  # type: ignore[union-attr, arg-type]
        assert turn.tool_calls is not None
        turn.tool_calls[0].function.arguments = '{"evil": 1}'
        turn.tool_calls.append(tool_call("look", id="k2"))
        held.open()
        got = checked(await collect(run, 20))
    messages: Any = got.outcome.messages
    assert [part.text for part in messages[0].content] == ["one"]
    assert [(c.id, c.function.arguments) for c in messages[1].tool_calls] == [("k", "{}")]
    assert [[part.text for part in m.content] for m in messages if m.id == "s"] == [["more"]]


class Scribbling:
    """An adapter that works on what it was given."""

    model = "scribbling"
    max_tokens = None

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        request.messages[0].content = "evil"
        for tool in request.tools:
            tool.parameters.clear()
        yield self.deltas()

    async def deltas(self) -> AsyncIterator[Any]:
        yield TextDelta("a")
        yield FinishDelta("stop")


async def test_a_request_does_not_reach_back() -> None:
    """L-31, L-1, L-143: a backend that writes on it changes neither the outcome nor a tool."""
    parameters = str(PAY.parameters)
    got = await play(Loop(backends=[Scribbling()], tools=[PAY]), "nice")
    assert [m.content for m in got.outcome.messages] == ["nice", "a"]
    assert str(PAY.parameters) == parameters


async def test_a_turn_that_is_given_twice() -> None:
    """L-141, L-144: every id of the conversation is used once, also when steered twice or with a turn of the input."""
    held, turn = gate(), user("s")
    async with Loop(backends=[ScriptedBackend([[held, text("a")], text("b")])]) as loop:
        run = loop.run([turn])
        await held.reached
        assert run.steer(turn)
        assert run.steer(turn)
        held.open()
        got = checked(await collect(run, 20))
    ids = [m.id for m in got.outcome.messages]
    assert len(set(ids)) == len(ids) == 5
    assert [e.message.id for e in got.of(events.Steered)] == ids[2:4]
