"""A call to a client tool: its arguments, how it runs, and what its value becomes."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from ag_ui.core import ImagePart, TextPart, UrlSource
from tests.client.kit import R, answers, echo, finished, ids, session, under, who
from tests.transcript.events import THREAD, ca, call, ce, cs, rf, rs
from tests.transcript.reading import calls

from handrail import Tool, ToolContext, tool
from handrail.testing import gate

# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [("{nope", "JSON"), ("[1]", "object"), ('{"x": "many"}', "x"), ('{"y": 1}', "y"), ("{}", "x")],
)
async def test_arguments_that_do_not_fit_are_answered_and_not_run(arguments: str, words: str) -> None:
    """S-67: naming the problem and the path; a blank text is {}."""
    ran: list[int] = []

    def act(x: int) -> None:
        ran.append(x)

    made = session(finished(call("c1", arguments, name="act")), finished(), tools=[act])
    assert (await made.run()).ok
    answer = answers(made.script.inputs[1])["c1"]
    assert ran == []
    assert words in answer.content
    assert answer.error
    assert calls(made.transcript)["c1"].status == "failed"


async def test_blank_arguments_are_none() -> None:
    """S-67"""
    made = session([rs(R), cs("c1", "echo"), ce("c1"), call("c2", "  ", name="echo"), rf(R)], finished(), tools=[echo])
    await made.run()
    assert [m.content for m in made.script.inputs[1].messages if m.role == "tool"] == ["got 0", "got 0"]


async def test_a_reopened_call_whose_text_no_longer_parses() -> None:
    """S-67, S-134"""
    made = session(
        finished(call("c1", '{"x":1}', name="echo"), cs("c1", "echo"), ca("c1", '{"x":2}'), ce("c1")),
        finished(),
        tools=[echo],
    )
    await made.run()
    assert answers(made.script.inputs[1])["c1"].error
    assert made.codes == ["tool-call-reopened"]


# -- execution ---------------------------------------------------------------------------------------------------------


async def test_neighbours_that_are_parallel_run_together_and_answers_stand_in_call_order() -> None:
    """S-68: each with its own id; a failure is an answer."""
    opened = anyio.Event()
    started: list[int] = []

    @tool(parallel=True)
    async def get_size(id: int) -> Any:
        started.append(id)
        if id == 1:
            await opened.wait()
            return "10"
        if id == 2:
            raise ValueError("no such id")
        opened.set()
        return {"w": 3}

    made = session(
        finished(*(call(f"c{n}", f'{{"id":{n}}}', name="get_size", parent="a1") for n in (1, 2, 3))),
        finished(),
        tools=[get_size],
    )
    with anyio.fail_after(5):
        await made.run()
    assert ids(made.script.inputs[1]) == ["a1", "tool(c1)", "tool(c2)", "tool(c3)"]
    given = answers(made.script.inputs[1])
    assert [given[f"c{n}"].content for n in (1, 3)] == ["10", '{"w":3}']
    assert (given["c2"].content, given["c2"].error) == ("Tool execution failed: ValueError: no such id", "no such id")
    assert len({message.id for message in given.values()}) == 3
    assert started == [1, 2, 3]


async def test_others_run_one_after_another() -> None:
    """S-68: in call order, on daemon threads of their own where they are sync."""
    log: list[str] = []

    def slow(x: int) -> str:
        log.append(f"begin {x}")
        time.sleep(0.005)
        log.append(f"end {x}")
        assert threading.current_thread().daemon
        assert threading.current_thread() is not threading.main_thread()
        return str(x)

    made = session(finished(*(call(f"c{n}", f'{{"x":{n}}}', name="slow") for n in (1, 2))), finished(), tools=[slow])
    await made.run()
    assert log == ["begin 1", "end 1", "begin 2", "end 2"]
    assert all(not message.error for message in answers(made.script.inputs[1]).values())


async def test_what_a_tool_may_know() -> None:
    """S-69"""
    made = session([rs("r1"), call("c1", '{"x":1}', name="who"), rf("r1")], finished(), tools=[who])
    await made.run(under("r1"))
    assert answers(made.script.inputs[1])["c1"].content == f'who c1 {{"x":1}} {THREAD} r1 False'


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, ""),
        ("", ""),
        ("text", "text"),
        (1.5, "1.5"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (datetime(2026, 11, 30, tzinfo=UTC), '"2026-11-30T00:00:00Z"'),
    ],
)
async def test_a_value_becomes_content(value: Any, content: str) -> None:
    """S-70"""

    def give() -> Any:
        return value

    made = session(finished(call("c1", name="give")), finished(), tools=[give])
    await made.run()
    answer = answers(made.script.inputs[1])["c1"]
    assert (answer.content, answer.error) == (content, None)


async def test_parts_and_values_that_cannot_be_expressed() -> None:
    """S-70"""
    picture = ImagePart(type="image", source=UrlSource(type="url", value="https://a/b.png"))

    def paint() -> Any:
        return [TextPart(type="text", text="here"), picture]

    def impossible() -> Any:
        return object()

    made = session(
        finished(call("c1", name="paint"), call("c2", name="impossible")), finished(), tools=[paint, impossible]
    )
    await made.run()
    given = answers(made.script.inputs[1])
    assert [part.type for part in given["c1"].content] == ["text", "image"]
    assert given["c2"].content.startswith("Tool execution failed: ValueError")
    assert given["c2"].error


async def test_a_tool_that_takes_too_long() -> None:
    """S-71: an error, the round goes on, and a thread that ignores it shows."""
    held = gate()

    def stuck() -> str:
        held.wait(10)
        return "late"

    async def sleeping(context: ToolContext) -> str:
        await anyio.sleep_forever()
        return "never"

    made = session(
        finished(call("c1", name="stuck"), call("c2", name="sleeping"), call("c3", name="echo")), finished(),
        tools=[Tool(stuck, timeout=0.02), Tool(sleeping, timeout=0.25), echo],
    )  # fmt: skip
    assert (await made.run()).ok
    given = answers(made.script.inputs[1])
    assert given["c1"].content == given["c1"].error == "Tool timed out after 0.02 s; its outcome is unknown"
    assert given["c2"].error == "Tool timed out after 0.25 s; its outcome is unknown"
    assert given["c3"].content == "got 0"
    assert made.still_running() == ("stuck",)
    held.open()
    await made.aclose()
    assert next(m.content for m in made.messages if m.role == "tool") == given["c1"].content


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_tool_that_raises(is_async: bool) -> None:
    """S-80: a cancellation error of its own, too; siblings and the round go on."""
    cancelled = __import__("asyncio").CancelledError

    async def async_fails() -> None:
        raise cancelled("mine")

    def sync_fails() -> None:
        raise cancelled("mine")

    fails = async_fails if is_async else sync_fails
    made = session(finished(call("c1", name=fails.__name__), call("c2", name="echo")), finished(), tools=[fails, echo])
    assert (await made.run()).ok
    given = answers(made.script.inputs[1])
    assert (given["c1"].content, given["c1"].error) == ("Tool execution failed: CancelledError: mine", "mine")
    assert given["c2"].content == "got 0"
    assert calls(made.transcript)["c1"].status == "failed"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_in_a_tool_goes_on_to_the_caller(kind: type[BaseException]) -> None:
    """S-80: its call is answered, and so are its siblings."""

    def interrupted() -> None:
        raise kind

    made = session(
        finished(call("c1", name="interrupted"), call("c2", name="echo")), finished(), tools=[interrupted, echo]
    )
    with pytest.raises(kind):
        await made.run()
    assert not made.busy
    await made.run()
    assert ids(made.script.inputs[1]) == ["c1", "tool(c1)", "c2", "tool(c2)"]
    assert all(message.error for message in answers(made.script.inputs[1]).values())


# -- what is not told --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["raised", "raised in a task", "asked"])
async def test_a_key_in_an_exception_is_told_to_nobody(how: str) -> None:
    """S-80, L-86: neither the agent, nor the screen, nor the dump; all have the same text."""
    key = "sk-live-0123456789"

    def use() -> str:
        raise LookupError(f"401 for https://user:{key}@host/v1?api_key={key}")

    async def use_later() -> str:
        use()
        return ""

    def ask(interrupt: Any) -> bool:
        raise PermissionError(f"token: {key}")

    tool = Tool(use_later if how == "raised in a task" else use, name="use", needs_approval=how == "asked")
    made = session(finished(call("c1", name="use")), finished(), tools=[tool], ask=ask)
    await made.run()
    sent = answers(made.script.inputs[1])["c1"]
    part = calls(made.transcript)["c1"]
    if how == "asked":
        assert sent.content == "Denied by the user: asking a person ended with PermissionError: token: [hidden]"
    else:
        assert sent.content == "Tool execution failed: LookupError: 401 for https://[hidden]@host/v1?api_key=[hidden]"
        assert sent.error == "401 for https://[hidden]@host/v1?api_key=[hidden]"
    assert (part.result, part.error) == (sent.content, sent.error)
    assert key not in str(made.dump())
