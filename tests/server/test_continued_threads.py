"""Threads that go on over several requests: client tools, approvals, histories, and what a tool's value becomes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from ag_ui.core import UserMessage
from pydantic import BaseModel
from tests.server.kit import asking, folded, serving
from tests.server.loops import look
from tests.server.scenarios import PICK, SCENARIOS, answered, loop_of, waiting

from handrail import Loop, Tool
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, call, text


async def test_a_call_to_a_client_tool_is_left_to_the_client() -> None:
    """P-79, P-87, case 152: no result for it, a result for ours, and the next request goes on with both in order."""
    backend = ScriptedBackend([[call("pick_date", id="c1"), call("look", {"q": "a"}, id="c2")], text("Friday.")])
    loop = Loop([backend], [Tool(look, name="look")])
    async with serving(agui_app(loop)) as endpoint:
        given = asking(tools=[PICK])
        first = await endpoint.played(given)
        assert first.last()["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}
        assert [p["toolCallId"] for p in first.payloads if p["type"] == "TOOL_CALL_RESULT"] == ["c2"]
        assert len(backend.requests) == 1
        history = [*folded(first.body, given), {"id": "x", "role": "tool", "toolCallId": "c1", "content": "Fri"}]
        second = await endpoint.played(asking(run_id="r2", messages=history, tools=[PICK]))
    assert second.text() == "Friday."
    assert [m.tool_call_id for m in backend.requests[1].messages if m.role == "tool"] == ["c1", "c2"]


async def test_a_tool_of_the_server_wins_over_one_of_the_client() -> None:
    """P-79: the client's declaration of the same name is not used."""
    clash = PICK | {"name": "look"}
    async with serving(agui_app(loop_of([call("look", {"q": "a"}, id="c1")], text("ok")))) as endpoint:
        visit = await endpoint.played(asking(tools=[clash]))
    assert visit.has("TOOL_CALL_RESULT")
    assert visit.last()["outcome"] == {"type": "success"}


async def test_an_approval_ends_the_run_and_is_answered_by_the_next() -> None:
    """P-80, P-87: the interrupt as the loop made it; approved, it is executed once, with no memory on this side."""
    make, given = SCENARIOS["approval"]
    async with serving(agui_app(make())) as endpoint:
        asked = await endpoint.played(given)
    [question] = asked.last()["outcome"]["interrupts"]
    assert (question["id"], question["toolCallId"], question["reason"]) == ("c1", "c1", "tool_call")
    assert question["metadata"] == {"toolName": "pay", "arguments": {"q": "1"}}
    history = folded(asked.body, given)
    async with serving(agui_app(loop_of(text("Paid.")))) as elsewhere:
        resume = [answered(approved=True)]
        done = await elsewhere.played(asking(run_id="r2", messages=history, resume=resume))
    assert [p["content"] for p in done.payloads if p["type"] == "TOOL_CALL_RESULT"] == ["found 1"]
    assert done.text() == "Paid."


@pytest.mark.parametrize(
    ("resume", "executed", "ended"),
    [
        (None, [], "interrupt"),
        ([], [], "interrupt"),
        ([answered("zz", approved=True)], [], "interrupt"),
        ([answered(approved=True)], ["1"], "success"),
        ([answered(approved=True, editedArgs={"q": "2"})], ["2"], "success"),
        ([answered(approved=False)], [], "success"),
        ([answered(approved="true")], [], "success"),
        ([answered(approved=1)], [], "success"),
        ([answered()], [], "success"),
        ([{"interruptId": "c1", "status": "resolved"}], [], "success"),
        ([{"interruptId": "c1", "status": "cancelled"}], [], "success"),
        ([{"interruptId": "c1", "status": "cancelled", "payload": {"approved": True}}], [], "success"),
    ],
)
async def test_only_a_plain_yes_executes(resume: Any, executed: list[str], ended: str) -> None:
    """P-80, case 155: what has no answer waits, what is denied or withdrawn is told to the model."""
    ran: list[str] = []

    def pay(q: str) -> str:
        ran.append(q)
        return "paid"

    backend = ScriptedBackend([text("ok")])
    fields = {} if resume is None else {"resume": resume}
    told: list[Any] = []
    loop = Loop([backend], [Tool(pay, needs_approval=True)])
    async with serving(agui_app(loop, on_warning=told.append)) as endpoint:
        visit = await endpoint.post(asking(messages=waiting(), **fields)).over()
    assert ran == executed
    assert visit.last()["outcome"]["type"] == ended
    assert [w.path for w in told] == (["/resume/0/interruptId"] if resume and "zz" in str(resume) else [])
    if ended == "interrupt":
        assert visit.types == ["RUN_STARTED", "RUN_FINISHED"]
        assert [i["id"] for i in visit.last()["outcome"]["interrupts"]] == ["c1"]
        assert backend.requests == []
    elif not executed:
        [result] = [p for p in visit.payloads if p["type"] == "TOOL_CALL_RESULT"]
        assert result["metadata"] == {"handrail.error": True}


async def test_what_is_answered_is_applied_and_the_rest_is_asked_again() -> None:
    """P-80: two questions, one answer: one result, then the other question, and no request to the model."""
    calls = [
        {"id": name, "type": "function", "function": {"name": "pay", "arguments": f'{{"q": "{name}"}}'}}
        for name in ("c1", "c2")
    ]
    history = [{"id": "u1", "role": "user", "content": "pay"}, {"id": "a1", "role": "assistant", "toolCalls": calls}]
    async with serving(agui_app(loop_of())) as endpoint:
        visit = await endpoint.played(asking(messages=history, resume=[answered("c2", approved=True)]))
    assert [p["toolCallId"] for p in visit.payloads if p["type"] == "TOOL_CALL_RESULT"] == ["c2"]
    assert [i["id"] for i in visit.last()["outcome"]["interrupts"]] == ["c1"]


LEGAL = ["user", "assistant", "tool", "user"]
DANGLING = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
TURN = {"id": "a1", "role": "assistant", "toolCalls": [DANGLING]}


@pytest.mark.parametrize(
    "middle",
    [
        [TURN],
        [TURN, *({"id": f"t{n}", "role": "tool", "toolCallId": "c1", "content": "x"} for n in (1, 2))],
        [TURN, {"id": "t1", "role": "tool", "toolCallId": "c9", "content": "x"}],
    ],
)
async def test_a_history_that_no_provider_takes_is_mended(middle: list[Any]) -> None:
    """P-79, case 153: a call without an answer, two answers, an answer without a call."""
    backend = ScriptedBackend([text("ok")])
    messages = [{"id": "u1", "role": "user", "content": "a"}, *middle, {"id": "u2", "role": "user", "content": "b"}]
    async with serving(agui_app(Loop([backend], [look]))) as endpoint:
        visit = await endpoint.post(asking(messages=messages)).over()
    assert visit.text() == "ok"
    assert [m.role for m in backend.requests[0].messages] == LEGAL


class Place(BaseModel):
    city: str


ODD_VALUES = {
    "none": (None, ""),
    "empty": ("", ""),
    "number": (3, "3"),
    "object": ({"a": 1}, '{"a":1}'),
    "list": ([], "[]"),
    "model": (Place(city="Rome"), '{"city":"Rome"}'),
    "time": (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02"),
    "long": ("x" * 2_000_000, "x" * 2_000_000),
}


@pytest.mark.parametrize("name", ODD_VALUES)
async def test_whatever_a_tool_returns_is_text_or_parts(name: str) -> None:
    """P-87, case 157: as the model sees it."""
    value, expected = ODD_VALUES[name]
    loop = Loop([ScriptedBackend([[call("tool", id="c1")], text("ok")])], [Tool(lambda: value, name="tool")])
    async with serving(agui_app(loop)) as endpoint:
        visit = await endpoint.played()
    [result] = [p for p in visit.payloads if p["type"] == "TOOL_CALL_RESULT"]
    content = result["content"]
    if name in ("object", "model"):
        assert json.loads(content) == json.loads(expected)
    elif name == "time":
        assert expected in content
    else:
        assert content == expected
    assert "metadata" not in result


@pytest.mark.parametrize("value", [b"\xff\x00", object()])
async def test_what_is_no_text_is_an_error_result(value: Any) -> None:
    """P-87, case 157: not a crash; what the model is told."""
    loop = Loop([ScriptedBackend([[call("tool", id="c1")], text("ok")])], [Tool(lambda: value, name="tool")])
    async with serving(agui_app(loop)) as endpoint:
        visit = await endpoint.played()
    [result] = [p for p in visit.payloads if p["type"] == "TOOL_CALL_RESULT"]
    assert result["metadata"] == {"handrail.error": True}
    assert visit.text() == "ok"


async def test_context_reaches_the_model_and_activities_do_not() -> None:
    """P-79: what the client shows beside the conversation."""
    backend = ScriptedBackend([text("ok")])
    activity = {"id": "x", "role": "activity", "activityType": "PLAN", "content": {"steps": []}}
    given = asking(context=[{"description": "Place", "value": "Rome"}])
    given["messages"] = [activity, *given["messages"]]
    async with serving(agui_app(Loop([backend]))) as endpoint:
        await endpoint.post(given).over()
    system, *rest = backend.requests[0].messages
    assert system.content == "Place:\nRome"
    assert rest == [UserMessage(id="u1", role="user", content="hi")]
