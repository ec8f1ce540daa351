"""What a client is sent: each kind of run at the endpoint, judged byte by byte, by our client and by a foreign one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.kit import asking, folded, judged, serving
from tests.server.scenarios import SCENARIOS, loop_of

from handrail import Loop
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, call, fail, gate, text, usage

STREAMS = ("live", "committed")


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
