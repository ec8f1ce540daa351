"""Ten kinds of runs that an endpoint can serve, each made anew: the loop, and the request that plays it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.server.kit import asking

from handrail import Budget, Limits, Loop, RetryPolicy, Tool, ToolContext
from handrail.testing import ScriptedBackend, call, fail, finish, reasoning, text, usage

NOW = RetryPolicy(backoff_cap=0)
PICK = {"name": "pick_date", "description": "Asks the person", "parameters": {"type": "object", "properties": {}}}


def look(q: str = "") -> str:
    """Look something up."""
    return f"found {q}"


def broken() -> str:
    """Never works."""
    raise ValueError("no")


def tells(context: ToolContext) -> str:
    """Says how far it is."""
    context.progress(1, 2, "half")
    context.log("a secret of ours")
    return "told"


GATED = Tool(look, name="pay", needs_approval=True)


def loop_of(*script: Any, **options: Any) -> Loop:
    tools = options.pop("tools", (look, broken, tells, GATED))
    return Loop(backends=[ScriptedBackend(script)], tools=tools, retry=NOW, budget=Budget(), **options)


def waiting(arguments: str = '{"q": "1"}', tool: str = "pay") -> list[dict[str, Any]]:
    """A history that ends with a call which waits for its approval."""
    function = {"name": tool, "arguments": arguments}
    return [
        {"id": "u1", "role": "user", "content": "pay"},
        {"id": "a1", "role": "assistant", "toolCalls": [{"id": "c1", "type": "function", "function": function}]},
    ]


def answered(call_id: str = "c1", **payload: Any) -> dict[str, Any]:
    return {"interruptId": call_id, "status": "resolved", "payload": payload}


SCENARIOS: dict[str, tuple[Callable[[], Loop], dict[str, Any]]] = {
    "text": (lambda: loop_of([text("It is ", "", "warm."), usage(12, 3)]), asking()),
    "tools": (
        lambda: loop_of(
            [text("Let me look."), call("look", {"q": "a"}, id="c1"), call("tells", {}, id="c2")],
            [call("look", {"q": "b"}, id="c3")],
            [text("Done."), usage(12, 3)],
        ),
        asking(),
    ),
    "reasoning": (
        lambda: loop_of([reasoning("Hm, "), reasoning("well."), text("So"), reasoning("And"), text(" it is.")]),
        asking(),
    ),
    "retried": (lambda: loop_of([text("The ans"), fail("connection")], [text("4.")]), asking()),
    "retried with reasoning": (
        lambda: loop_of([reasoning("a"), text("b"), fail("connection")], [text("4.")]),
        asking(),
    ),
    "failed": (lambda: loop_of([text("The ans"), fail("http", status=400)]), asking()),
    "cut off": (lambda: loop_of([text("The answer is"), finish("length")]), asking()),
    "limit": (
        lambda: loop_of(
            [text("a"), call("look", {}, id="c1")],
            [text("b"), call("look", {}, id="c2")],
            text("enough"),
            limits=Limits(max_rounds=1),
        ),
        asking(),
    ),
    "client tool": (
        lambda: loop_of([text("When?"), call("pick_date", id="c1"), call("look", {"q": "a"}, id="c2")]),
        asking(tools=[PICK]),
    ),
    "approval": (
        lambda: loop_of([text("May I?"), call("pay", {"q": "1"}, id="c1"), call("broken", id="c2")]),
        asking(),
    ),
    "resumed": (lambda: loop_of([text("Paid.")]), asking(messages=waiting(), resume=[answered(approved=True)])),
    "bad arguments": (
        lambda: loop_of([call("look", "{not json", id="c1"), call("nope", {}, id="c2")], [text("Sorry.")]),
        asking(),
    ),
}
