"""Watching a session: values, changes, callbacks, warnings."""

from __future__ import annotations

import logging
import threading
from itertools import pairwise
from typing import Any

import anyio
import pytest
from ag_ui.core import BaseEvent
from tests.client.kit import Agent, R, roles, session, texts, under
from tests.transcript.events import acd, acs, call, custom, encrypted, raw, rf, rs, said, sd, ss, tc, te, text, ts

from handrail import AgentSession, Idle, Transcript, WarningRecord
from handrail.testing import gate


async def test_values_are_readable_from_any_thread_at_any_time() -> None:
    """S-143: each a consistent value, while the exchange writes."""
    deltas = [tc("m1", "x") for _ in range(300)]
    patches = [sd({"op": "add", "path": "/n/-", "value": number}) for number in range(1, 101)]
    made = session([rs(R), ts("m1"), deltas, te("m1"), ss({"n": [0]}), patches, rf(R)])
    stop, problems, reads = threading.Event(), [], [0]

    def read() -> None:
        while not stop.is_set():
            try:
                transcript = made.transcript
                shown = "".join(texts(transcript))
                assert shown == "x" * len(shown)
                numbers = transcript.state.get("n", [])
                assert numbers == list(range(len(numbers)))
                _ = (made.messages, made.state, made.pending_interrupts, made.owed_answers, made.warnings, made.busy)
                _ = (made.pending_tool_calls, made.dump())
                reads[0] += 1
            except Exception as error:
                problems.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    await made.run()
    stop.set()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)
    assert problems == []
    assert reads[0] > 0
    assert len(made.state["n"]) == 101


async def test_changes_give_the_current_value_and_then_the_latest() -> None:
    """S-144: a slow reader skips; it ends at aclose."""
    held = gate()
    made = session([rs(R), held, text("m1", *"abcdefgh"), rf(R)])
    seen: list[Transcript] = []

    async def reading() -> None:
        async for transcript in made.changes():
            seen.append(transcript)
            if len(seen) == 1:
                await held.reached
                await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        group.start_soon(reading)
        await anyio.wait_all_tasks_blocked()
        assert [one.run for one in seen] == [Idle()]
        async with anyio.create_task_group() as inner:
            inner.start_soon(made.run)
            await held.reached
            held.open()
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(0.02)
        await made.aclose()
    assert seen[-1] is made.transcript
    assert [one.version for one in seen] == sorted({one.version for one in seen})


def test_changes_work_in_another_event_loop() -> None:
    """S-144: any number, any time."""
    made = session([rs(R), text("m1", "hi"), rf(R)])
    texts_seen: list[str] = []
    ready = threading.Event()

    async def watch() -> None:
        ready.set()
        async for transcript in made.changes():
            if transcript.run.ok:
                texts_seen.append(transcript.text)
                return

    watchers = [
        threading.Thread(target=anyio.run, args=(watch,), kwargs={"backend": backend})
        for backend in ("asyncio", "trio")
    ]
    for watcher in watchers:
        watcher.start()
    ready.wait(10)
    made.run_sync()
    for watcher in watchers:
        watcher.join(10)
    assert texts_seen == ["hi", "hi"]


async def test_every_published_transcript_is_told_in_order() -> None:
    """S-145: turn, events, endings; equal values are not; the last is told before the call returns."""
    made = session([rs(R), raw(1), ts("m1"), tc("m1", "a"), tc("m1", ""), te("m1"), rf(R)], [rs(R), rf(R)])
    told: list[Transcript] = []
    end = made.subscribe(told.append)
    await made.send(said("u1", "hi"))
    assert told[-1] is made.transcript
    assert [(roles(one), texts(one)) for one in told[:4]] == [
        (["user"], ["hi"]),
        (["user"], ["hi"]),
        (["user", "assistant"], ["hi", ""]),
        (["user", "assistant"], ["hi", "a"]),
    ]
    assert len(told) == 6
    assert all(one != other for one, other in pairwise(told))
    assert [one.version for one in told] == sorted({one.version for one in told})
    end()
    end()
    await made.run()
    assert len(told) == 6


async def test_events_are_told_behind_their_folding() -> None:
    """S-146: RAW, CUSTOM and metadata included."""
    made = session([rs(R), raw({"x": 1}), custom("note", 2), text("m1", "a"), rf(R)])
    told: list[tuple[str, str]] = []
    end = made.subscribe_events(lambda event: told.append((event.type.value, "".join(texts(made.transcript)))))
    await made.run()
    assert [name for name, _ in told][:3] == ["RUN_STARTED", "RAW", "CUSTOM"]
    assert len(told) == 7
    assert told[4][1] == "a"
    end()


@pytest.mark.parametrize("fault", [ValueError("no"), "cancelled"])
async def test_a_callback_that_raises_loses_its_own_call_only(fault: Any) -> None:
    """S-147"""
    made = session([rs(R), text("m1", "a"), rf(R)])
    seen: list[BaseEvent] = []

    def raises(value: Any) -> None:
        raise fault if fault != "cancelled" else __import__("asyncio").CancelledError

    if fault == "cancelled" and anyio.get_cancelled_exc_class() is not __import__("asyncio").CancelledError:
        fault = ValueError("trio's cannot be made by user code")
    made.subscribe(raises)
    made.subscribe_events(raises)
    made.subscribe_events(seen.append)
    assert (await made.run()).ok
    assert len(seen) == 5
    assert set(made.codes) == {"callback-raised"}
    assert len(made.codes) == 10


async def test_an_event_is_folded_before_a_callback_can_raise() -> None:
    """S-147, S-20"""
    made = session([rs(R), text("m1", "a"), rf(R)])
    made.subscribe_events(lambda event: 1 / 0)
    await made.run()
    assert texts(made.transcript) == ["a"]


# -- warnings ----------------------------------------------------------------------------------------------------------


async def test_warnings_come_once_each() -> None:
    """S-148, S-149: those of the fold from the session's own, the others from the agent's run; with their place."""
    remove = {"op": "remove", "path": "/none"}
    odd = [{"type": "FROM_THE_FUTURE"}, sd(remove), acs("x", {}), acd("x", remove), encrypted("message", "nobody", "v")]
    made = session([rs("r1"), odd, {**wire(ts("m1")), "extra": 1}, te("m1"), rf("r1")])
    assert (await made.run(under("r1"))).ok
    assert sorted(made.codes) == ["activity", "encrypted-value", "state-delta", "unknown-event", "unknown-property"]
    assert made.warnings == tuple(made.told)
    by_code = {warning.code: warning for warning in made.told}
    assert by_code["unknown-property"].path == "/extra"
    assert "nobody" in by_code["encrypted-value"].message


def wire(event: BaseEvent) -> dict[str, Any]:
    return event.model_dump(by_alias=True, mode="json")


async def test_an_activity_of_an_earlier_run_is_known() -> None:
    """S-149: the agent's own fold would warn here, and is not listened to."""
    made = session(
        [rs(R), acs("x", {"n": 1}), rf(R)], [rs(R), acd("x", {"op": "replace", "path": "/n", "value": 2}), rf(R)]
    )
    await made.run()
    await made.run()
    assert made.codes == []


async def test_without_a_sink_warnings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """S-148: on the logger `handrail`, at WARNING."""
    agent = Agent([rs(R), {"type": "FROM_THE_FUTURE"}, rf(R)])
    with caplog.at_level(logging.DEBUG, logger="handrail"):
        await AgentSession(agent, thread_id="t").run()
    logged = [record for record in caplog.records if record.name == "handrail"]
    assert [record.levelname for record in logged] == ["WARNING"]
    assert "unknown-event" in logged[0].getMessage()


async def test_a_sink_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """S-147, S-148: it is logged and swallowed; the records are kept."""

    def sink(record: WarningRecord) -> None:
        raise ValueError("no")

    agent = Agent([rs(R), {"type": "FROM_THE_FUTURE"}, rf(R)])
    made = AgentSession(agent, thread_id="t", on_warning=sink)
    with caplog.at_level(logging.ERROR, logger="handrail"):
        assert (await made.run()).ok
    assert [record.code for record in made.warnings] == ["unknown-event"]
    assert caplog.records


async def test_the_last_thousand_are_kept() -> None:
    """S-148"""
    made = session([rs(R), *({"type": "FROM_THE_FUTURE"} for _ in range(1_005)), rf(R)])
    await made.run()
    assert (len(made.warnings), len(made.told)) == (1_000, 1_005)


async def test_a_message_restated_is_the_screens_own_warning() -> None:
    """S-127, S-149"""
    from tests.transcript.events import answered, ms

    made = session([rs(R), ms(answered("a1", "Hello")), text("a1", "Hello"), rf(R)])
    await made.run()
    assert made.codes == ["message-id-reused", "message-restated"]


async def test_calls_in_two_runs_warn_as_listed() -> None:
    """S-132, S-134, S-133, S-149"""
    made = session([rs(R), call("c1", "{"), rf(R)], [rs(R), call("c1", "}"), call("c2"), rf(R)], max_tool_rounds=0)
    await made.run()
    made.answer_tool_call("c1", "x")
    await made.run()
    assert made.codes == ["call-id-reused"]
