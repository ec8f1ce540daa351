"""Client tools: which calls are executed, when, and how each is answered."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import ImagePart, TextPart, UrlSource
from ag_ui.core import Tool as Declaration
from tests.client.kit import answers, calls, ids, session, under
from tests.transcript.events import (
    THREAD,
    answered,
    asks,
    ca,
    call,
    ce,
    cr,
    cs,
    error,
    ms,
    question,
    rf,
    rfx,
    rs,
    said,
    te,
    text,
)

from handrail import Failed, Finished, RunParams, Tool, ToolContext, abandon, approve, deny, edit, tool
from handrail.testing import gate

R = "*"


def echo(x: int = 0) -> str:
    return f"got {x}"


def finished(*parts: Any) -> list[Any]:
    return [rs(R), *parts, rf(R)]


# -- declaring ---------------------------------------------------------------------------------------------------------


async def test_own_tools_are_declared_behind_the_callers() -> None:
    """S-61"""
    made = session(finished(), finished(), tools=[echo])
    await made.run(RunParams(tools=[Declaration(name="search", description="d")]))
    assert [declared.name for declared in made.script.inputs[0].tools or ()] == ["search", "echo"]
    assert (made.script.inputs[0].tools or ())[1].parameters["properties"]["x"]["type"] == "integer"
    await made.run()
    assert [declared.name for declared in made.script.inputs[1].tools or ()] == ["echo"]


async def test_the_callers_declaration_stands_and_the_own_tool_executes_it() -> None:
    """S-61: one warning for the exchange."""
    theirs = Declaration(name="echo", description="theirs")
    made = session(finished(call("c1", '{"x":3}', name="echo")), finished(), tools=[echo])
    await made.run(RunParams(tools=[theirs]))
    assert [given.tools for given in made.script.inputs] == [[theirs], [theirs]]
    assert answers(made.script.inputs[1])["c1"].content == "got 3"
    assert made.codes == ["duplicate-tool"]


async def test_without_tools_nothing_is_declared_or_executed() -> None:
    """S-61, S-73"""
    made = session(finished(call("c1")))
    assert (await made.run()).ok
    assert made.script.inputs[0].tools == []
    assert made.pending_tool_calls == ("c1",)


# -- the round ---------------------------------------------------------------------------------------------------------


async def test_a_round() -> None:
    """S-62, S-76: the tool runs when the run is over, its result goes in a follow-up of the same shape."""
    order: list[str] = []

    def tracked(x: int) -> str:
        order.append("tool")
        return f"got {x}"

    made = session(
        [rs("r1"), call("c1", '{"x":1}', name="tracked", parent="a1"), rf("r1")],
        finished(text("a2", "done")),
        tools=[tracked],
    )
    made.subscribe_events(lambda event: order.append(event.type.value))
    params = RunParams("r1", forwarded_props={"k": 1})
    state = await made.send(said("u1", "go"), params)
    first, second = made.script.inputs
    assert order.index("RUN_FINISHED") < order.index("tool")
    assert ids(second) == ["u1", "a1", "tool(c1)"]
    assert (second.tools, second.context, second.forwarded_props) == (first.tools, first.context, {"k": 1})
    assert second.resume is None
    assert second.run_id != "r1"
    assert state == Finished(THREAD, second.run_id)
    part = calls(made.transcript)["c1"]
    assert (part.status, part.result, part.local) == ("complete", "got 1", True)
    assert [message.role for message in made.messages] == ["user", "assistant", "tool", "assistant"]
    assert [message.exchange for message in made.transcript.messages] == [1, 1, 1]


@pytest.mark.parametrize(
    ("end", "executed"),
    [([rf(R)], 1), ([asks(R, question("i1", "other"))], 1), ([asks(R, question("i1", "c1"))], 0), ([rfx(R)], 0),
     ([error("no")], 0), ([], 0), ([OSError("gone")], 0), ([te("nobody")], 0)],
)  # fmt: skip
async def test_a_tool_runs_only_when_it_is_certain_that_the_call_is_ours(end: Any, executed: int) -> None:
    """S-63, S-65, S-66: after success, or beside a question that does not hold it; never after any other end."""
    ran: list[int] = []

    def act() -> None:
        ran.append(1)

    made = session([rs(R), call("c1", name="act"), *end], finished(), tools=[act])
    await made.run()
    assert len(ran) == executed
    assert len(made.script.inputs) == (2 if executed and end[0].outcome is None else 1)


@pytest.mark.parametrize("pieces", [None, "", "{}", "{"])
@pytest.mark.parametrize("whole", [call("c1"), ms(said("u1", "q"), answered("c1", None, ("c1", "{}")))])
async def test_a_call_that_was_cut_off_is_executed_once_it_is_whole(pieces: str | None, whole: Any) -> None:
    """S-58, S-66, P-51, P-53: whether the next run streams it again or a snapshot brings it; never before."""
    cut = [cs("c1")] if pieces is None else [cs("c1"), ca("c1", pieces)]
    made = session([rs(R), *cut, error()], finished(whole), finished(), tools=[Tool(echo, name="look")])
    await made.send(said("u1", "q"))
    await made.run()
    assert list(map(ids, made.script.inputs)) == [["u1"], ["u1"], ["u1", "c1", "tool(c1)"]]
    assert answers(made.script.inputs[2])["c1"].content == "got 0"
    assert calls(made.transcript)["c1"].status == "complete"


async def test_a_call_that_the_server_answered_before_it_is_never_executed() -> None:
    """S-64, P-62: an answer that came before its call is an answer too."""
    made = session(finished(cr("c1", "theirs"), call("c1", name="echo")), finished(), tools=[echo])
    await made.send("q")
    assert len(made.script.inputs) == 1
    await made.run()
    assert answers(made.script.inputs[1])["c1"].content == "theirs"


async def test_a_call_that_the_server_answered_is_never_executed() -> None:
    """S-64"""
    ran: list[str] = []

    def delete_file(path: str) -> None:
        ran.append(path)

    made = session(
        finished(call("c1", '{"path":"a"}', name="delete_file"), cr("c1", "deleted")), finished(), tools=[delete_file]
    )
    await made.run()
    assert (ran, len(made.script.inputs)) == ([], 1)
    await made.run()
    assert [m.content for m in made.script.inputs[1].messages if m.role == "tool"] == ["deleted"]


async def test_the_agent_may_list_which_calls_are_pending() -> None:
    """S-63: calls of the run outside the list are not executed; unknown and answered ids are skipped."""
    ran: list[int] = []

    def act(x: int) -> str:
        ran.append(x)
        return str(x)

    made = session(
        [rs(R), call("c1", '{"x":1}', name="act"), call("c2", '{"x":2}', name="act"), call("c3"), cr("c3"),
         rf(R, pending=["c2", "nobody", "c3"])],
        finished(),
        tools=[act],
    )  # fmt: skip
    await made.run()
    assert ran == [2]
    assert made.codes[:2] == ["pending-id-unknown", "pending-id-unknown"]
    assert answers(made.script.inputs[1])["c1"].error == "Not executed: the run ended before this call was answered"


@pytest.mark.parametrize("pending", [None, []])
async def test_without_a_list_the_pending_calls_are_derived(pending: Any) -> None:
    """S-63"""
    made = session([rs(R), call("c1", name="echo"), rf(R, pending=pending)], finished(), tools=[echo])
    await made.run()
    assert len(made.script.inputs) == 2


async def test_beside_a_question_what_nothing_holds_runs_at_once() -> None:
    """S-65, S-87: its result is kept, carried by the resume; the held call stays unanswered there."""
    made = session(
        [
            rs(R),
            call("c1", name="echo", parent="a1"),
            call("c2", name="echo", parent="a1"),
            asks(R, question("i1", "c2")),
        ],
        finished(cr("c2", "theirs")),
        tools=[echo],
    )
    state = await made.run()
    assert (state.ok, len(made.script.inputs)) == (False, 1)
    assert calls(made.transcript)["c1"].status == "complete"
    assert calls(made.transcript)["c2"].status == "awaiting_approval"
    await made.resume([approve("i1")])
    assert ids(made.script.inputs[1]) == ["a1", "tool(c1)"]


async def test_a_released_call_is_executed_behind_a_finished_resume() -> None:
    """S-65, S-69: held, neither denied nor abandoned, and still without a result; it is told where it came from."""
    made = session(
        [rs("r1"), call("c1", '{"x":1}', name="who"), asks("r1", question("i1", "c1"))],
        finished(),
        finished(),
        tools=[who],
    )
    await made.run(under("r1"))
    assert (await made.resume([approve("i1")])).ok
    assert len(made.script.inputs) == 3
    assert answers(made.script.inputs[2])["c1"].content.endswith(" r1 False")


def who(context: ToolContext, x: int) -> str:
    given = (context.name, context.call_id, context.arguments, context.thread_id, context.run_id, context.cancelled)
    return " ".join(map(str, given))


@pytest.mark.parametrize("answer", [deny("i1", "too dear"), abandon("i1")])
async def test_a_refused_call_is_never_executed(answer: Any) -> None:
    """S-104: the repair says why, when the server says nothing."""
    ran: list[int] = []

    def pay() -> None:
        ran.append(1)

    made = session([rs(R), call("c1", name="pay"), asks(R, question("i1", "c1"))], finished(), finished(), tools=[pay])
    await made.run()
    await made.resume([answer])
    why = "Denied by the user: too dear" if answer.kind == "deny" else "Abandoned by the user"
    part = calls(made.transcript)["c1"]
    assert (ran, len(made.script.inputs), part.status, part.result) == ([], 2, "denied", why)
    await made.run()
    assert answers(made.script.inputs[2])["c1"].content == why
    assert calls(made.transcript)["c1"].status == "denied"


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


# -- several rounds ----------------------------------------------------------------------------------------------------


async def test_follow_ups_that_call_tools_are_answered_too() -> None:
    """S-75"""
    made = session(finished(call("c1", name="echo")), finished(call("c2", name="echo")), finished(), tools=[echo])
    assert (await made.run()).ok
    assert ids(made.script.inputs[2]) == ["c1", "tool(c1)", "c2", "tool(c2)"]
    assert len({given.run_id for given in made.script.inputs}) == 3


@pytest.mark.parametrize("limit", [0, 1])
async def test_the_limit_of_rounds(limit: int) -> None:
    """S-75: the calls are left, surfaced and warned; 0 means never."""
    streams = [finished(call(f"c{n}", name="echo")) for n in range(3)]
    made = session(*streams, tools=[echo], max_tool_rounds=limit)
    state = await made.run()
    assert (state.ok, len(made.script.inputs)) == (True, limit + 1)
    assert made.pending_tool_calls == (f"c{limit}",)
    assert made.codes == ["tool-rounds-exhausted"]
    await made.run()
    assert answers(made.script.inputs[limit + 1])[f"c{limit}"].error == (
        f"Not executed: limit of {limit} tool rounds reached"
    )


async def test_a_follow_up_that_fails_keeps_its_results() -> None:
    """S-77: run carries them again, and nothing is executed twice."""
    ran: list[int] = []

    def count() -> str:
        ran.append(1)
        return "x"

    made = session(finished(call("c1", name="count")), [OSError("down")], finished(), tools=[count])
    assert isinstance(await made.run(), Failed)
    await made.run()
    assert ids(made.script.inputs[1]) == ids(made.script.inputs[2]) == ["c1", "tool(c1)"]
    assert answers(made.script.inputs[1])["c1"].id == answers(made.script.inputs[2])["c1"].id
    assert ran == [1]


@pytest.mark.parametrize("late", [error("late"), te("nobody"), OSError("gone")])
async def test_what_comes_behind_the_end_does_not_stop_the_round(late: Any) -> None:
    """S-78, S-18"""
    made = session([rs(R), call("c1", name="echo"), rf(R), late], finished(), tools=[echo], grace=5.0)
    assert (await made.run()).ok
    assert len(made.script.inputs) == 2


async def test_stopped_between_the_tools_of_a_round() -> None:
    """S-46, S-79: ready results are kept, the others answered with an error, all ahead of the next turn."""
    held = gate()

    async def slow() -> str:
        await held
        return "late"

    calling = [call(f"c{n}", name=name, parent="a1") for n, name in ((1, "echo"), (2, "slow"), (3, "echo"))]
    made = session(finished(*calling), finished(), tools=[echo, slow])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.run)
            await held.reached
            scope.cancel()
    await made.send(said("u1", "on"))
    assert ids(made.script.inputs[1]) == ["a1", "tool(c1)", "tool(c2)", "tool(c3)", "u1"]
    given = answers(made.script.inputs[1])
    assert (given["c1"].content, given["c1"].error) == ("got 0", None)
    assert given["c2"].error == "Stopped before the tool finished"
    assert given["c3"].error == "Not executed: the run ended before this call was answered"


async def test_a_stopped_tool_is_told() -> None:
    """S-46, S-69: async ones are cancelled, sync ones see it in their context; a late value is dropped."""
    held, seen = gate(), threading.Event()
    contexts: list[ToolContext] = []
    ended: list[str] = []

    @tool(parallel=True)
    def blocking(context: ToolContext) -> str:
        contexts.append(context)
        held.wait(10)
        if context.cancelled:
            seen.set()
        return "late"

    @tool(parallel=True)
    async def waiting() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    made = session(
        finished(call("c1", name="blocking"), call("c2", name="waiting")), finished(), tools=[blocking, waiting]
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        await anyio.wait_all_tasks_blocked()
        made.stop()
    held.open()
    await made.aclose()
    assert seen.is_set()
    assert ended == ["cancelled"]
    assert [m.content for m in made.messages if m.role == "tool"] == ["Stopped before the tool finished"] * 2


async def test_a_snapshot_keeps_results_it_was_not_told() -> None:
    """S-140: one result for the call in every later request; a call that is gone is warned about."""
    made = session(
        [
            rs(R),
            call("c1", name="echo", parent="a1"),
            call("c2", name="other", parent="a1"),
            asks(R, question("i1", "c2")),
        ],
        [rs(R), ms(answered("a1", None, ("c1", "{}"), ("c2", "{}"))), cr("c2", "ok"), rf(R)],
        finished(),
        tools=[echo],
    )
    await made.run()
    await made.resume([approve("i1")])
    assert calls(made.transcript)["c1"].status == "complete"
    await made.run()
    assert ids(made.script.inputs[2]) == ["a1", "tool(c1)", "tool(c2)"]
    assert made.codes == []


async def test_a_replayed_run_executes_nothing_again() -> None:
    """S-98: a run that this thread has seen finish is folded, and changes nothing else."""
    ran: list[int] = []

    def count() -> str:
        ran.append(1)
        return "x"

    made = session(
        [rs("r1"), call("c1", name="count"), rf("r1")], finished(),
        [rs("r1"), call("c1", name="count"), asks("r1", question("i9")), rs(R), text("a2", "new"), rf(R)],
        tools=[count], grace=5.0,
    )  # fmt: skip
    await made.run(under("r1"))
    assert (await made.run()).ok
    assert (ran, made.pending_interrupts) == ([1], ())
    assert len(made.script.inputs) == 3


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
