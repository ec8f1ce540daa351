"""The scripted model, asked directly: what goes in comes out, and every silence can be left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest

from handrail import (
    BackendError,
    BackendRequest,
    FinishDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageDelta,
    user,
)
from handrail.loop import Backend
from handrail.testing import (
    FakeClock,
    ScriptedBackend,
    call,
    cut,
    delay,
    fail,
    finish,
    gate,
    reasoning,
    stall,
    text,
    usage,
)


async def play_into(got: list[Any], backend: ScriptedBackend, request: BackendRequest | None = None) -> None:
    async with backend.stream(request or BackendRequest(messages=())) as deltas:
        async for delta in deltas:
            got.append(delta)  # noqa: PERF401  # what came stays, also when the stream breaks


async def play(backend: ScriptedBackend, request: BackendRequest | None = None) -> list[Any]:
    got: list[Any] = []
    await play_into(got, backend, request)
    return got


@pytest.mark.parametrize(
    ("step", "deltas"),
    [
        (text("a", "b"), [TextDelta("a"), TextDelta("b"), FinishDelta("stop")]),
        ([reasoning("hm"), text("a")], [ReasoningDelta("hm"), TextDelta("a"), FinishDelta("stop")]),
        (
            [call("f", {"x": 1}, id="1"), call("g", "{nonsense", id="2")],
            [
                ToolCallDelta(0, "1", "f", '{"x": 1}'),
                ToolCallDelta(1, "2", "g", "{nonsense"),
                FinishDelta("tool-calls"),
            ],
        ),
        (call("f", None, id="1"), [ToolCallDelta(0, "1", "f", None), FinishDelta("tool-calls")]),
        (
            call("f", "abcde", id="1", fragments=2),
            [
                ToolCallDelta(0, "1", "f"),
                ToolCallDelta(0, arguments="abc"),
                ToolCallDelta(0, arguments="de"),
                FinishDelta("tool-calls"),
            ],
        ),
        (
            [text("t"), call("f", id="1", fragments=["{", "}"])],
            [
                TextDelta("t"),
                ToolCallDelta(0, "1", "f"),
                ToolCallDelta(0, arguments="{"),
                ToolCallDelta(0, arguments="}"),
                FinishDelta("tool-calls"),
            ],
        ),
        (
            [text("a"), finish("length"), usage(prompt=10, completion=5, total=15, cached=3, cost="0.1")],
            [TextDelta("a"), FinishDelta("length"), UsageDelta(Usage(10, 5, 15, 3, "0.1"))],  # pyright: ignore
        ),
        (finish("stop", model="other-1"), [FinishDelta("stop", "other-1")]),
        ([text("a"), cut(), text("never")], [TextDelta("a")]),
        ([], [FinishDelta("stop")]),
    ],
)
async def test_what_is_scripted_is_what_is_sent(step: Any, deltas: Sequence[Any]) -> None:
    """L-160: makers alone or in sequence, in order, with the finish that follows from them."""
    assert await play(ScriptedBackend([step])) == list(deltas)


async def test_ids_of_calls_are_fresh_unless_given() -> None:
    """L-160: two calls never share an id by accident."""
    first, second, _ = await play(ScriptedBackend([[call("f"), call("f")]]))
    assert first.id != second.id
    assert first.arguments == "{}"


@pytest.mark.parametrize(
    ("made", "kind", "status", "retry_after", "words"),
    [
        (fail(), "other", None, None, "scripted failure"),
        (fail("http", status=429, retry_after=2.0, message="slow down"), "http", 429, 2.0, "slow down"),
        (fail("overflow"), "overflow", None, None, "overflow"),
    ],
)
async def test_failures_come_at_their_point(
    made: Any, kind: str, status: int | None, retry_after: float | None, words: str
) -> None:
    """L-160: what stands before the failure is sent, what stands behind it is not."""
    backend = ScriptedBackend([[text("so far"), made, text("never")]])
    got: list[Any] = []
    with pytest.raises(BackendError, match=words) as raised:
        await play_into(got, backend)
    assert got == [TextDelta("so far")]
    assert (raised.value.kind, raised.value.status, raised.value.retry_after) == (kind, status, retry_after)
    assert (backend.opened, backend.closed) == (1, 1)


async def test_any_exception_can_be_scripted() -> None:
    """L-160: an exception is raised as it is."""
    error = LookupError("mine")
    with pytest.raises(LookupError) as raised:
        await play(ScriptedBackend([fail(error)]))
    assert raised.value is error


async def test_out_of_steps() -> None:
    """L-161: misuse that names the step, never an empty answer; a pushed step is played."""
    backend = ScriptedBackend([text("one")])
    await play(backend)
    with pytest.raises(BackendError, match="request 2 finds no step: 1 were scripted") as raised:
        await play(backend)
    assert raised.value.kind == "misuse"
    backend.push(text("two"))
    assert await play(backend) == [TextDelta("two"), FinishDelta("stop")]


async def test_requests_are_kept() -> None:
    """L-161: each as it was, whatever becomes of the list it was made of; opened and closed count the streams."""
    backend = ScriptedBackend([text("a"), text("b")], model="m", max_tokens=50)
    messages = [user("hi")]
    await play(backend, BackendRequest(messages=messages, run_id="r", round=1, attempt=2))
    messages.append(user("later"))
    (request,) = backend.requests
    assert [m.content for m in request.messages] == ["hi"]
    assert (request.run_id, request.attempt) == ("r", 2)
    assert (backend.model, backend.max_tokens, backend.opened, backend.closed) == ("m", 50, 1, 1)
    assert isinstance(backend, Backend)
    assert repr(backend) == "<ScriptedBackend m 1 of 2 steps left>"


@pytest.mark.parametrize("wrong", ["text", 3, [text("a"), "b"], [[text("a")]]])
def test_a_step_that_no_maker_made(wrong: Any) -> None:
    """L-160: refused at once, naming the step and the makers."""
    with pytest.raises(TypeError, match=r"step 2 .*text\(\)"):
        ScriptedBackend([text("a"), wrong])


def test_a_finish_reason_that_is_none() -> None:
    """L-160: a closed set."""
    with pytest.raises(ValueError, match="tool-calls"):
        finish("tool_calls")  # pyright: ignore


async def test_delay_is_on_the_clock_of_the_request() -> None:
    """L-160: no real time passes."""
    clock = FakeClock()
    backend = ScriptedBackend([[delay(3600), text("a")]])
    got: list[Any] = []

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(play_into, got, backend, BackendRequest(messages=(), sleep=clock.sleep))
            while not clock.sleeping:
                await anyio.lowlevel.checkpoint()
            clock.advance(3599)
            await anyio.lowlevel.checkpoint()
            assert got == []
            clock.advance(1)
    assert got == [TextDelta("a"), FinishDelta("stop")]
    assert clock.monotonic() == 3600


async def test_a_stall_ends_when_the_stream_is_closed() -> None:
    """L-160: silence until then, and the stream is closed once."""
    backend = ScriptedBackend([[text("a"), stall(), text("never")]])
    got: list[Any] = []
    with anyio.move_on_after(0.05) as scope:
        await play_into(got, backend)
    assert scope.cancelled_caught
    assert got == [TextDelta("a")]
    assert (backend.opened, backend.closed) == (1, 1)


async def test_a_gate_is_reached_and_opened() -> None:
    """L-160: `.reached` is a Settled, `.open()` lets the script go on, also from a thread, also early."""
    held, free = gate(), gate()
    free.open()
    backend = ScriptedBackend([[text("a"), free, held, text("b")]])
    got: list[Any] = []

    assert not held.reached.is_set
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(play_into, got, backend)
            await held.reached
            assert "reached" in repr(held)
            assert got == [TextDelta("a")]
            await anyio.to_thread.run_sync(held.open)
    assert got == [TextDelta("a"), TextDelta("b"), FinishDelta("stop")]
    assert held.opened.is_set


@pytest.mark.parametrize(
    "make",
    [
        lambda: text(None),  # type: ignore[arg-type]
        lambda: text("a", 5),  # type: ignore[arg-type]
        lambda: reasoning(None),  # type: ignore[arg-type]
        lambda: call(5),  # type: ignore[arg-type]
        lambda: call("t", [1]),  # type: ignore[arg-type]
        lambda: call("t", id=5),  # type: ignore[arg-type]
        lambda: call("t", fragments=[1]),  # type: ignore[list-item]
        lambda: delay("x"),  # type: ignore[arg-type]
        lambda: delay(float("nan")),
        lambda: fail(ValueError),  # type: ignore[arg-type]
        lambda: fail(5),  # type: ignore[arg-type]
        lambda: fail("rate-limit"),  # it would count as "other"
    ],
)
def test_makers_refuse_what_no_model_says(make: Callable[[], object]) -> None:
    """L-160: at once, where the script is written."""
    with pytest.raises((TypeError, ValueError), match=r"text\(\)|reasoning\(\)|call\(\)|delay\(\)|fail\(\)"):
        make()
