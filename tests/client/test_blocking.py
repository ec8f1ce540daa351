"""The blocking forms of a session's calls."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import warnings
from typing import Any

import pytest
from tests.client.kit import CANCELLED, R, Session, session
from tests.transcript.events import asks, question, rf, rs, text

from handrail import ResumeError, UsageError, approve
from handrail.testing import gate


def test_blocking_calls_any_number_of_times_from_any_thread() -> None:
    """S-49"""
    made = session(*([rs(R), text(f"a{n}", str(n)), rf(R)] for n in range(6)))
    assert made.send_sync("a").ok
    assert made.run_sync().ok
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(made.send_sync("b"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [state.ok for state in results] == [True, True]
    assert asyncio.run(_one_run(made)).ok
    assert made.run_sync().ok


async def _one_run(made: Session) -> Any:
    return await made.run()


def test_a_blocking_resume() -> None:
    """S-49"""
    made = session([rs(R), asks(R, question("i1"))], [rs(R), rf(R)])
    made.run_sync()
    with pytest.raises(ResumeError):
        made.resume_sync([approve("other")])
    assert made.resume_sync([approve("i1")]).ok


async def test_blocking_forms_are_refused_where_a_loop_runs() -> None:
    """S-49: naming the async method, and leaving no coroutine that nobody awaits."""
    made = session()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, go in (
            ("send", lambda: made.send_sync("x")),
            ("run", made.run_sync),
            ("resume", lambda: made.resume_sync([approve("i")])),
        ):
            with pytest.raises(UsageError, match=rf"await session\.{name}"):
                go()
        gc.collect()


def test_an_interrupted_blocking_call_is_recorded_as_cancelled() -> None:
    """S-49: by a real interrupt from the keyboard."""
    held = gate()
    made = session([rs(R), held], [rs(R), rf(R)])

    def interrupt() -> None:
        held.reached.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        made.run_sync()
    assert made.transcript.run == CANCELLED
    assert made.run_sync().ok
