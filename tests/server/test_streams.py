"""What a client is sent: each kind of run at the endpoint, judged byte by byte, by our client and by a foreign one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from ag_ui.core import RunAgentInput, UserMessage
from pydantic import BaseModel
from tests.server.kit import asking, judged, serving
from tests.server.scenarios import PICK, SCENARIOS, answered, loop_of, waiting

from handrail import Budget, Loop, Tool, UsageError
from handrail.agui._fold import Fold
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, call, fail, gate, reasoning, text, usage

STREAMS = ("live", "committed")


def folded(body: bytes, given: dict[str, Any]) -> list[Any]:
    """The messages that a client has in the end."""
    fold = Fold(RunAgentInput.model_validate(given).messages)
    for event in judged(body, fold.messages).events:
        fold.apply(event)
    return [message.model_dump(by_alias=True, exclude_none=True) for message in fold.messages]


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_stream_is_a_legal_run(name: str, stream: Any) -> None:
    """P-82, P-83, P-85, P-90, P-97, P-98: head, frames, order, one terminal event, the end of the body; every judge."""
    make, given = SCENARIOS[name]
    async with serving(agui_app(make(), stream=stream)) as endpoint:
        visit = await endpoint.played(given)
    assert visit.status == 200
    assert visit.headers["content-type"] == "text/event-stream"
    assert visit.headers["cache-control"] == "no-cache"
    assert visit.headers["x-accel-buffering"] == "no"
    started = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "protocolVersion": "1.0"}
    assert visit.payloads[0] == started
    assert [message["more_body"] for message in visit.sent[1:]] == [True] * (len(visit.sent) - 2) + [False]


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in ("limit", "failed", "cut off")])
async def test_folding_gives_what_the_loop_has(name: str, stream: Any) -> None:
    """P-86: ids, content and order of `outcome.messages`; nothing of the input comes again."""
    make, given = SCENARIOS[name]
    kept: list[Any] = []
    app = agui_app(make(), stream=stream, on_finish=lambda given, outcome: kept.append(outcome))
    async with serving(app) as endpoint:
        visit = await endpoint.played(given)
    messages = [message.model_dump(by_alias=True, exclude_none=True) for message in kept[0].messages]
    for message in messages:
        message.pop("metadata", None)  # remarks of the loop on its own messages
        message.pop("error", None)
    seen = folded(visit.body, given)
    for message in seen:
        message.pop("metadata", None)
    if name == "retried with reasoning" and stream == "live":
        assert seen.pop(1)["content"] == ""  # what was retracted, and could not be taken back
    assert seen == messages
    ids = [message["id"] for message in messages]
    assert len(set(ids)) == len(ids)


async def test_a_retry_takes_back_what_was_said() -> None:
    """P-88, case 130: the two texts are never joined; a snapshot states the thread without the first."""
    make, given = SCENARIOS["retried"]
    async with serving(agui_app(make())) as endpoint:
        visit = await endpoint.played(given)
    assert visit.types == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "MESSAGES_SNAPSHOT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert [m["id"] for m in visit.payloads[4]["messages"]] == ["u1"]
    assert [m["content"] for m in folded(visit.body, given)] == ["hi", "4."]


async def test_committed_text_is_never_taken_back() -> None:
    """P-89: nothing before it stands, so nothing of the failed attempt at all."""
    make, given = SCENARIOS["retried with reasoning"]
    async with serving(agui_app(make(), stream="committed")) as endpoint:
        visit = await endpoint.played(given)
    assert "MESSAGES_SNAPSHOT" not in visit.types
    assert visit.text() == "4."


async def test_a_failure_before_the_first_token_is_not_seen() -> None:
    """P-87, P-88, case 131: one clean answer."""
    loop = loop_of(fail("connection"), text("ok"))
    async with serving(agui_app(loop)) as endpoint:
        visit = await endpoint.played()
    assert visit.types == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]


@pytest.mark.parametrize(
    ("script", "used"),
    [
        ([[call("look", {}, id="c1")], text("ok")], None),
        ([[call("look", {}, id="c1"), usage(10, 5)], text("ok")], ({"totalTokens": 15}, False)),
        ([[text("ok"), usage(total=15)]], ({"totalTokens": 15}, True)),
        ([[text("ok"), usage(0, 0)]], ({"totalTokens": 0, "inputTokens": 0, "outputTokens": 0}, True)),
    ],
)
async def test_unknown_is_not_zero(script: list[Any], used: Any) -> None:
    """P-92, case 133: no count that nobody reported; a zero that somebody did."""
    async with serving(agui_app(loop_of(*script))) as endpoint:
        last = (await endpoint.played()).last()
    if used is None:
        assert "usage" not in last
    else:
        counts = {key: value for key, value in last["usage"][0].items() if key not in ("model",)}
        assert counts.items() >= used[0].items()
        assert "provider" not in counts
    complete = used is not None and used[1]
    assert last.get("metadata", {}).get("handrail.usageComplete", True) is complete


@pytest.mark.parametrize(
    ("loop", "code", "words"),
    [
        (lambda: loop_of([text("a"), fail("http", status=400)]), "run-failed", "The run failed."),
        (lambda: loop_of(fail("overflow")), "context-exhausted", "The conversation is too long for the model."),
        (lambda: SCENARIOS["cut off"][0](), "completion-truncated", "The answer was cut off at the length limit."),
        (
            lambda: Loop([ScriptedBackend([[call("look"), usage(9, 9)], text("ok")])], [look], budget=CAPPED),
            "budget-exhausted",
            "The budget of this run is used up.",
        ),
    ],
)
async def test_what_a_client_is_told_of_a_failure(loop: Callable[[], Loop], code: str, words: str) -> None:
    """P-91: a code and a fixed text."""
    async with serving(agui_app(loop())) as endpoint:
        last = (await endpoint.played()).last()
    assert (last["type"], last["code"], last["message"]) == ("RUN_ERROR", code, words)


def look() -> str:
    """Look."""
    return "x"


CAPPED = Budget(max_total_tokens=10)


async def test_the_text_of_a_failure_is_the_applications_to_choose() -> None:
    """P-91: `error_text(outcome)` replaces it; one that raises, or makes no text, does not."""

    def raises(outcome: Any) -> str:
        raise RuntimeError("sk-1")

    for make, words in ((lambda outcome: f"Sorry: {outcome.outcome}", "Sorry: failed"), (raises, "The run failed.")):
        told: list[Any] = []
        async with serving(agui_app(loop_of(fail("response")), error_text=make, on_warning=told.append)) as endpoint:
            visit = await endpoint.post().over()
        assert visit.last()["message"] == words
        assert len(told) == (make is raises)


async def test_cancelled_by_the_application() -> None:
    """P-87, P-90, case 148: what is open is closed, then RUN_FINISHED with outcome cancelled and no result."""
    held = gate()
    loop = loop_of([text("half"), usage(3, 1), held])
    async with serving(agui_app(loop)) as endpoint:
        visit = endpoint.post()
        await held.reached
        await visit.until(lambda: visit.has("TEXT_MESSAGE_CONTENT"))
        stopped = await endpoint.ask("POST", "/runs/r1/cancel").over()
        await visit.over()
    assert stopped.status == 202
    judged(visit.body)
    assert visit.types[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert visit.last()["outcome"] == {"type": "cancelled"}
    assert "result" not in visit.last()
    assert visit.last()["usage"][0]["totalTokens"] == 4


async def test_separators_are_escaped() -> None:
    """P-83, case 150: no raw separator and no CR in the body; the text is what the model said."""
    said = "a\u2028b\u2029c\u0085d\re\nf\ud83d"
    async with serving(agui_app(loop_of(text(said)))) as endpoint:
        visit = await endpoint.played()
    assert visit.text() == said.replace("\ud83d", "\ufffd")


async def test_calls_of_one_answer_share_its_id() -> None:
    """P-86, case 151: the id under which the history will hold the answer, whether or not it has text."""
    loop = loop_of(
        [call("look", {"q": "1"}, id="c1"), call("look", {"q": "2"}, id="c2")],
        [text("x"), call("look", {"q": "3"}, id="c3")],
        [text("y")],
    )
    async with serving(agui_app(loop)) as endpoint:
        visit = await endpoint.played()
    parent = {p["toolCallId"]: p["parentMessageId"] for p in visit.payloads if p["type"] == "TOOL_CALL_START"}
    texts = [p["messageId"] for p in visit.payloads if p["type"] == "TEXT_MESSAGE_START"]
    assert parent["c1"] == parent["c2"]
    assert parent["c3"] == texts[0]
    assert len({parent["c1"], *texts}) == 3
    calls = [m["toolCalls"] for m in folded(visit.body, asking()) if "toolCalls" in m]
    assert [[c["id"] for c in own] for own in calls] == [["c1", "c2"], ["c3"]]


async def test_each_answer_has_its_own_message() -> None:
    """P-86, case 159: text before and after a call is one message; ids are unique across runs."""
    loop = loop_of([text("A"), call("look", {"q": "1"}, id="c1"), text("B")], [text("C")], [text("D")])
    async with serving(agui_app(loop)) as endpoint:
        first = await endpoint.played()
        second = await endpoint.played(asking(run_id="r2"))
    texts = [m["content"] for m in folded(first.body, asking()) if m["role"] == "assistant"]
    assert texts == ["AB", "C"]
    ids = [p["messageId"] for v in (first, second) for p in v.payloads if p["type"] == "TEXT_MESSAGE_START"]
    assert len(set(ids)) == 3


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


async def test_progress_and_limits_are_custom_and_logs_stay_here() -> None:
    """P-87: two CUSTOM events of ours; nothing of a log."""
    limit, tools = SCENARIOS["limit"], SCENARIOS["tools"]
    async with serving(agui_app(limit[0]())) as endpoint:
        one = await endpoint.played(limit[1])
    async with serving(agui_app(tools[0]())) as endpoint:
        two = await endpoint.played(tools[1])
    customs = [(p["name"], p["value"]) for v in (one, two) for p in v.payloads if p["type"] == "CUSTOM"]
    assert customs == [
        ("handrail.limit-reached", {"limit": "max-rounds", "count": 1, "max": 1}),
        ("handrail.tool-progress", {"toolCallId": "c2", "progress": 1, "total": 2, "message": "half"}),
    ]
    assert b"secret" not in two.body


async def test_a_turn_of_the_user_in_the_middle_of_a_run() -> None:
    """P-87: Steered is a text message of the user."""
    held = gate()
    runs: list[Any] = []

    class Steered(Loop):
        def run(self, *args: Any, **options: Any) -> Any:
            runs.append(super().run(*args, **options))
            return runs[0]

    loop = Steered([ScriptedBackend([[text("a"), held], text("b")])])
    async with serving(agui_app(loop)) as endpoint:
        visit = endpoint.post()
        await held.reached
        runs[0].steer("and in Kelvin?")
        held.open()
        await visit.over()
    given = asking()
    assert [m["content"] for m in folded(visit.body, given)] == ["hi", "a", "and in Kelvin?", "b"]
    assert [p.get("role") for p in visit.payloads if p["type"] == "TEXT_MESSAGE_START"] == [
        "assistant",
        "user",
        "assistant",
    ]


async def test_the_head_goes_out_before_the_model_is_asked() -> None:
    """P-82: also where sending it takes its time."""
    backend = ScriptedBackend([text("ok")])
    asked_before: list[int] = []
    app = agui_app(Loop([backend]))

    async def slow_head(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                await gate_of_head
                asked_before.append(len(backend.requests))
            await send(message)

        await app(scope, receive, sending)

    gate_of_head = gate()
    async with serving(slow_head) as endpoint:
        visit = endpoint.post()
        await gate_of_head.reached
        gate_of_head.open()
        await visit.over()
    assert asked_before == [0]
    assert visit.text() == "ok"


async def test_ids_of_the_request_come_back() -> None:
    """P-87: thread, run and parent run are those of the input; `input` is not echoed."""
    async with serving(agui_app(loop_of(text("ok")))) as endpoint:
        visit = await endpoint.played(asking(run_id="r 7", thread_id="t/ü", parentRunId="r0"))
    started = {"type": "RUN_STARTED", "threadId": "t/ü", "runId": "r 7", "parentRunId": "r0", "protocolVersion": "1.0"}
    assert visit.payloads[0] == started
    assert (visit.last()["threadId"], visit.last()["runId"]) == ("t/ü", "r 7")


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


# -- failures of our own -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["feed", "finish", "encode", "fail"])
async def test_a_crash_of_the_endpoint_is_told_in_the_stream(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-90, P-91: RUN_ERROR internal-error, once, and the body ends; the run is called off."""
    from handrail.server import _tape

    times = iter(range(100))

    def crash(*args: Any, **options: Any) -> Any:
        raise RuntimeError("sk-test-1")

    def crash_third(number: int, event: Any) -> bytes:
        return original(number, event) if next(times) != 2 else crash()

    original = _tape.encode
    if place == "encode":
        monkeypatch.setattr(_tape, "encode", crash_third)
    elif place == "feed":
        feed = _tape.Outbound.feed
        monkeypatch.setattr(_tape.Outbound, "feed", lambda self, e: crash() if e.kind == "token" else feed(self, e))
    else:
        monkeypatch.setattr(_tape.Outbound, "finish", crash)
        if place == "fail":
            monkeypatch.setattr(_tape.Outbound, "fail", crash)
    backend = ScriptedBackend([[reasoning("a"), text("b"), *([gate()] if place in ("feed", "encode") else [])]])
    async with serving(agui_app(Loop([backend]))) as endpoint:
        visit = await endpoint.post().over()
    assert visit.last() == {"type": "RUN_ERROR", "code": "internal-error", "message": "Internal error."}
    assert [t for t in visit.types if t in ("RUN_FINISHED", "RUN_ERROR")] == ["RUN_ERROR"]
    assert visit.sent[-1]["more_body"] is False
    assert backend.opened == backend.closed
    assert b"sk-test" not in visit.body


async def test_a_loop_that_cannot_start_is_a_failed_run() -> None:
    """P-90, P-93: the head is out already, so it is told in the stream; `on_finish` is called."""

    class Broken(Loop):
        def run(self, *args: Any, **options: Any) -> Any:
            raise UsageError("sk-test-2")

    kept: list[Any] = []
    app = agui_app(Broken([ScriptedBackend()]), on_finish=lambda given, outcome: kept.append((given, outcome)))
    async with serving(app) as endpoint:
        visit = await endpoint.played()
    assert visit.types == ["RUN_STARTED", "RUN_ERROR"]
    assert b"sk-test" not in visit.body
    [(given, outcome)] = kept
    assert (given.run_id, outcome.outcome) == ("r1", "failed")
