"""The same run, cancelled at each of its events, for every kind of run there is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from ag_ui.core import Tool as ClientTool

from handrail import AbortRun, Budget, Limits, Loop, Tool, ToolContext, Window, assistant, user
from handrail.agui import approve, deny, edit
from handrail.loop import LoopRun
from handrail.messages import tool_call, tool_result
from handrail.testing import ScriptedBackend, call, cancel_everywhere, cut, fail, finish, gate, reasoning, text, usage

from .kit import NOW, look

ids = itertools.count()


async def look_async(q: str = "") -> str:
    """The same as a task."""
    return f"found {q}"


def fatal() -> str:
    raise AbortRun("stop")


def broken() -> str:
    raise ValueError("no")


def tells(context: ToolContext) -> str:
    context.progress(1, 2)
    context.log("half")
    return "told"


def run(
    *script: Any, messages: Any = "hi", tools: Any = (look,), answers: Any = (), more: Any = (), **options: Any
) -> LoopRun:
    loop = Loop(backends=[ScriptedBackend(script)], tools=tools, **options)
    return loop.run(messages, answers=answers, tools=more)


def fresh(name: str = "look", **arguments: Any) -> Any:
    return call(name, arguments or {"q": str(next(ids))})


def two_backends() -> LoopRun:
    first = ScriptedBackend([[text("half"), fail("response")]], model="one")
    return Loop(backends=[first, ScriptedBackend([text("whole")], model="two")], retry=NOW).run("hi")


def skipped() -> LoopRun:
    small = ScriptedBackend([], model="small")
    budget = Budget(windows={"small": Window(context=10)})
    return Loop(backends=[small, ScriptedBackend([text("ok")], model="big")], budget=budget).run("hi")


def steered() -> LoopRun:
    going = run([text("a"), fresh()], text("b"))
    going.steer("left")
    return going


def held_model() -> LoopRun:
    return run([text("a"), gate(), fresh()], text("b"))


def held_thread() -> LoopRun:
    held = gate()
    return run(call("blocks"), text("b"), tools=[Tool(lambda: held.wait(10), name="blocks")])


def held_task() -> LoopRun:
    held = gate()

    async def waits() -> str:
        await held
        return "ok"

    return run([call("waits"), fresh()], text("b"), tools=[waits, look])


def held_group() -> LoopRun:
    held = gate()

    async def waits(n: int) -> str:
        await held
        return str(n)

    def blocks(n: int) -> str:
        held.wait(10)
        return str(n)

    tools = [Tool(waits, parallel=True), Tool(blocks, parallel=True), look]
    return run(
        [call("waits", {"n": 1}), call("blocks", {"n": 2}), call("waits", {"n": 3}), fresh()], text("b"), tools=tools
    )


def held_question() -> LoopRun:
    held = gate()

    async def ask(interrupt: Any) -> bool:
        await held
        return True

    return run([fresh(), fresh()], text("b"), tools=[Tool(look, needs_approval=True)], ask=ask)


def held_question_in_a_thread() -> LoopRun:
    held = gate()

    def ask(interrupt: Any) -> bool:
        held.wait(10)
        return False

    return run([fresh(), fresh()], text("b"), tools=[Tool(look, needs_approval=True)], ask=ask)


def continued(*answers: Any, fn: Any = look) -> LoopRun:
    calls = [tool_call("look", '{"q": "1"}', id="a"), tool_call("look", '{"q": "2"}', id="b")]
    waits = [user("hi"), assistant("May I?", tool_calls=calls)]
    return run(text("done"), messages=waits, tools=[Tool(fn, name="look", needs_approval=True)], answers=answers)


def repaired() -> LoopRun:
    broken_history = [
        user("x"),
        assistant("", tool_calls=[tool_call("look", id="c")]),
        tool_result("z", "?"),
        user("y"),
    ]
    return run(text("ok"), messages=broken_history)


SCENARIOS: dict[str, Callable[[], LoopRun]] = {
    "one text": lambda: run(text("a", "b")),
    "nothing said": lambda: run(finish("stop")),
    "reasoning": lambda: run([reasoning("hm", "hm"), text("a"), usage(1, 1)], budget=Budget()),
    "a thread tool": lambda: run([text("a"), fresh()], text("b")),
    "an async tool": lambda: run(call("look_async"), text("b"), tools=[look_async]),
    "three calls": lambda: run([fresh(), fresh("broken"), fresh()], text("b"), tools=[look, broken]),
    "a parallel group": lambda: run([fresh(), fresh(), fresh()], text("b"), tools=[Tool(look, parallel=True)]),
    "mixed groups": lambda: run(
        [fresh(), fresh(), fresh("look_async"), fresh()], text("b"), tools=[Tool(look, parallel=True), look_async]
    ),
    "progress and logs": lambda: run(call("tells"), text("b"), tools=[tells]),
    "wrong arguments": lambda: run(call("look", "nonsense"), call("nobody"), text("b")),
    "an abort": lambda: run([fresh(), call("fatal"), fresh()], tools=[look, fatal]),
    "a retry": lambda: run([text("half"), fail("connection")], [text("again"), cut()], text("whole"), retry=NOW),
    "a spent chain": lambda: run(fresh(), fail("other"), fail("other"), fail("other"), retry=NOW),
    "an abort of the provider": lambda: run(fail("http", 401)),
    "two backends": two_backends,
    "a skip": skipped,
    "a cut": lambda: run([text("half"), fresh(), finish("length")]),
    "a limit": lambda: run(fresh(), [text("x"), fresh()], text("last"), limits=Limits(max_rounds=1)),
    "a limit and silence": lambda: run(fresh(), fresh(), fresh(), limits=Limits(max_rounds=1)),
    "a cap": lambda: run([fresh(), usage(9, 9)], text("never"), budget=Budget(max_total_tokens=5)),
    "stops to ask": lambda: run([fresh(), fresh()], tools=[Tool(look, needs_approval=True)]),
    "asks in process": lambda: run(
        [fresh(), fresh()], text("b"), tools=[Tool(look, needs_approval=True)], ask=lambda i: next(ids) % 2 == 0
    ),
    "continued": lambda: continued(approve("a"), deny("b", "no")),
    "continued, edited": lambda: continued(edit("a", {"q": "3"}), edit("b", {"wrong": 1})),
    "continued in part": lambda: continued(approve("a")),
    "continued in part, and stopped": lambda: continued(approve("b"), fn=lambda q: fatal()),
    "a client tool": lambda: run([call("pick"), fresh()], more=[ClientTool(name="pick", description="")]),
    "steered": steered,
    "repaired": repaired,
    "a model that says nothing": held_model,
    "a thread that blocks": held_thread,
    "a task that waits": held_task,
    "a group that waits": held_group,
    "a person who thinks": held_question,
    "a person in a thread": held_question_in_a_thread,
    "five rounds": lambda: run(*[[text("x"), fresh()] for _ in range(4)], text("done")),
}
tried: dict[str, int] = {}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_cancelled_at_every_event(name: str, anyio_backend_name: str) -> None:
    """L-13 to L-17, L-20, L-93, L-124, L-141, R-40, R-42, R-71: one terminal, all closed, nothing left behind."""
    points = await cancel_everywhere(SCENARIOS[name], timeout=10)
    assert points >= 3
    tried[f"{anyio_backend_name}: {name}"] = points


def test_how_much_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """L-164: at least twenty scenarios, on both event loops; the number of points is printed."""
    assert len(SCENARIOS) >= 20
    with capsys.disabled():
        print(f"\ncancel_everywhere: {len(SCENARIOS)} scenarios, {sum(tried.values())} points on both event loops")
