"""The conversation that a run hands back: always valid to send, and never rewritten."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import (
    AbortRun,
    Budget,
    Limits,
    Loop,
    ReasoningDelta,
    RetryPolicy,
    TextDelta,
    assistant,
    events,
    tool,
    user,
)
from handrail.loop import FinishDelta
from handrail.messages import tool_call, tool_result
from handrail.testing import ScriptedBackend, call, check_messages, collect, cut, fail, finish, stall, text, usage

from .kit import checked, play, roles


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        (
            [user("a"), assistant("", tool_calls=[tool_call("f", id="c")]), user("b")],
            ["user", "assistant", "tool", "user"],
        ),
        ([user("a"), tool_result("c", "r")], ["user"]),
        (
            [
                assistant("", tool_calls=[tool_call("f", id="c")]),
                tool_result("c", "1"),
                tool_result("c", "2"),
                user("b"),
            ],
            ["assistant", "tool", "user"],
        ),
        (
            [assistant("", tool_calls=[tool_call("f", id="c")]), user("b"), tool_result("c", "1")],
            ["assistant", "tool", "user"],
        ),
    ],
)
async def test_input_is_repaired_never_refused(messages: list[Any], sent: list[str]) -> None:
    """L-140 (case 153): the backend sees a legal history; one warning; the outcome has the repaired conversation."""
    backend = ScriptedBackend([text("ok")])
    got = await play(Loop(backends=[backend]), messages)
    assert [m.role for m in backend.requests[0].messages] == sent
    assert [log.level for log in got.of(events.Log)] == ["warning"]
    assert roles(got) == [*sent, "assistant"]
    assert got.events[0].message_count == len(messages)


async def test_a_call_answered_in_nobodys_name_is_told() -> None:
    """L-140: ToolAbandoned(unrecorded), dispatched True, round 0."""
    got = await play(
        Loop(backends=[ScriptedBackend([text("ok")])]), [assistant("", tool_calls=[tool_call("f", id="c")]), user("b")]
    )
    (end,) = got.of(events.ToolAbandoned)
    assert (end.id, end.name, end.reason, end.dispatched, end.round) == ("c", "f", "unrecorded", True, 0)
    assert end.message_id == got.outcome.messages[1].id
    assert end.content == got.outcome.messages[1].content


def look() -> str:
    return "x"


@tool
def fatal() -> str:
    raise AbortRun("stop")


def ending(how: str) -> tuple[list[Any], dict[str, Any], str]:
    """A script, the options of its loop, and how its run ends."""
    return {
        "text": ([text("ok")], {}, "completed"),
        "steps": ([[text("a"), call("look")], text("b")], {}, "completed"),
        "failed chain": ([call("look"), fail("misuse")], {}, "failed"),
        "cut": ([call("look"), [text("half"), finish("length")]], {}, "failed"),
        "no finish": ([cut()], {"retry": RetryPolicy(max_attempts=1)}, "failed"),
        "limit": ([call("look") for _ in range(9)], {"limits": Limits(max_rounds=2)}, "failed"),
        "budget": ([[call("look"), call("look"), usage(9, 9)]], {"budget": Budget(max_total_tokens=1)}, "failed"),
        "abort": ([[call("fatal"), call("look")]], {}, "failed"),
        "cancelled": ([call("look"), [text("half"), stall()]], {}, "cancelled"),
        "unknown tool": ([call("nobody"), text("ok")], {}, "completed"),
    }[how]


ENDINGS = ["text", "steps", "failed chain", "cut", "no finish", "limit", "budget", "abort", "cancelled", "unknown tool"]


@pytest.mark.parametrize("how", ENDINGS)
async def test_going_on_works_after_every_outcome(how: str) -> None:
    """L-141, L-143 (case 109): every call answered, nothing half-streamed, ids unique; and nothing is rewritten."""
    script, options, outcome = ending(how)
    async with Loop(backends=[ScriptedBackend(script)], tools=[look, fatal], **options) as loop:
        run = loop.run("hi")
        if how == "cancelled":
            async for seen in run.events:
                if isinstance(seen, events.Token):
                    run.cancel()
        got = checked(await collect(run))
    assert got.outcome.outcome == outcome
    backend = ScriptedBackend([text("going on")])
    again = await play(Loop(backends=[backend], tools=[look, fatal]), [*got.outcome.messages, user("go on")])
    assert again.outcome.ok
    assert again.of(events.Log) == []
    assert check_messages(backend.requests[0].messages) == []
    assert list(again.outcome.messages[: len(got.outcome.messages)]) == list(got.outcome.messages)


async def test_no_message_once_appended_is_changed() -> None:
    """L-143: what the first request was shown is the beginning of all that follow."""
    backend = ScriptedBackend([call("look"), [text("a"), call("look")], text("ok")])
    got = await play(Loop(backends=[backend], tools=[look]))
    for earlier, later in zip(backend.requests, backend.requests[1:], strict=False):
        assert list(later.messages[: len(earlier.messages)]) == list(earlier.messages)
    assert list(backend.requests[-1].messages) == list(got.outcome.messages[:-1])


class Thinks:
    model = "thinker"
    max_tokens = None

    def __init__(self, *deltas: Any) -> None:
        self.deltas = deltas

    def stream(self, request: Any) -> Any:
        return self

    async def __aenter__(self) -> Any:
        return self._all()

    async def _all(self) -> Any:
        for delta in self.deltas:
            yield delta

    async def __aexit__(self, *args: Any) -> None: ...


@pytest.mark.parametrize(
    ("deltas", "content", "opaque"),
    [
        ([ReasoningDelta("I think"), ReasoningDelta("", "sig")], "I think", "sig"),
        ([ReasoningDelta("", "sealed")], "", "sealed"),
    ],
)
async def test_reasoning_goes_before_its_turn(deltas: list[Any], content: str, opaque: str) -> None:
    """L-142: content, and encrypted_value if the backend gave something opaque; metadata names backend and model."""
    got = await play(Loop(backends=[Thinks(*deltas, TextDelta("so"), FinishDelta("stop"))]))
    reasoning, turn = got.outcome.messages[1:]
    assert (reasoning.role, reasoning.content, reasoning.encrypted_value) == ("reasoning", content, opaque)
    assert reasoning.metadata == {"backend": 0, "model": "thinker"}
    assert turn.content == "so"


async def test_reasoning_of_a_failed_attempt_is_not_kept() -> None:
    """L-14, L-142."""
    got = await play(Loop(backends=[Thinks(ReasoningDelta("lost")), ScriptedBackend([text("ok")])]))
    assert roles(got) == ["user", "assistant"]
    assert got.outcome.final == "ok"


async def test_collecting_twice_gives_the_same() -> None:
    """R-43, L-143: a second reader, later, sees the same run."""
    async with Loop(backends=[ScriptedBackend([text("ok")])]) as loop:
        run = loop.run("hi")
        first = await collect(run)
        second = await collect(run)
    assert first.events == second.events
    assert first.outcome is second.outcome
