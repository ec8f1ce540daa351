"""What a client is told of a failure, of the model's and of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.server.kit import serving
from tests.server.loops import look
from tests.server.scenarios import SCENARIOS, loop_of

from handrail import Budget, Loop, UsageError
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, call, fail, gate, reasoning, text, usage


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
