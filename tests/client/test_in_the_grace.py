"""What happens between the agent's verdict and the end of its stream: a run more, a stop, a dump."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.client.kit import R, answers, ids, loaded, session
from tests.transcript.events import call, error, rf, rs, said, text
from tests.transcript.reading import calls

from handrail import Failed, Running, Transcript
from handrail.testing import stall


async def test_a_run_that_begins_when_the_grace_is_over() -> None:
    """S-21, S-25, S-41, P-44: nobody cancelled, and the state that a call returns is that of a run that is over."""
    made = session([rs("r0"), rf("r0"), rs(R), text("a", "hi"), rf(R)], grace=0.0)
    state = await made.send("q")
    assert isinstance(state, Failed)
    assert state.kind == "truncated"
    assert state == made.transcript.run
    assert not made.busy
    assert not any(message.is_streaming for message in made.transcript.messages)


async def test_a_stop_in_a_callback_ends_the_exchange_there() -> None:
    """S-43, S-47: what comes behind it is not folded, though it may be here already."""
    made = session([rs(R), text("a", "hi"), rf(R)])
    seen: list[str] = []

    def stop(shown: Transcript) -> None:
        if isinstance(shown.run, Running):
            made.stop()

    made.subscribe(stop)
    made.subscribe_events(lambda event: seen.append(event.type.value))
    state = await made.send("q")
    assert state == Failed("Run cancelled", "CANCELLED")
    assert seen == ["RUN_STARTED"]
    assert [message.role for message in made.messages] == ["user"]


@pytest.mark.parametrize("end", [rf(R, result=1), error("no", "X")], ids=["finished", "failed"])
async def test_a_dump_behind_the_verdict_keeps_it(end: Any) -> None:
    """S-18, S-152: the run is over, though its stream is not; a call of a finished run is still to be answered."""
    made = session([rs(R), call("c1"), end, stall()], grace=30.0)
    saved: list[Any] = []
    async with anyio.create_task_group() as group:
        group.start_soon(made.send, said("u1", "q"))
        async for shown in made.changes():
            if not isinstance(shown.run, Running) and shown.run == made.transcript.run and made.messages[1:]:
                break
        saved.append(made.dump())
        made.stop()
    again = loaded(saved[0], [rs(R), rf(R)])
    assert again.transcript.run == made.transcript.run
    is_finished = not isinstance(made.transcript.run, Failed)
    assert again.pending_tool_calls == (("c1",) if is_finished else ())
    assert calls(again.transcript)["c1"].status == ("awaiting_result" if is_finished else "failed")
    await again.run()
    assert ids(again.script.inputs[0]) == ["u1", "c1", "tool(c1)"]
    why = "no result was given" if is_finished else "the run ended"
    assert why in answers(again.script.inputs[0])["c1"].error
