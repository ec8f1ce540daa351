"""Fixtures of the handle's tests."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.event_loops import HERE, EventLoop, chosen
from tests.run._kit import Said

from handrail.run import RunDriver


@pytest.fixture(params=chosen(HERE))
def anyio_backend(request: pytest.FixtureRequest) -> EventLoop:
    """The handle is what stands on the event loop itself, so its tests run on all there are here."""
    return HERE[request.param]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """A gate for threads; opened at the end of the test, so that nobody is left behind it."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What reached `sys.unraisablehook` until the end of the test, garbage collected included."""
    noise: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: noise.append((args.exc_value, args.object)))
    yield noise
    gc.collect()


@pytest.fixture
def driver() -> Iterator[RunDriver[Said]]:
    """A driver whose run is open, and finished behind the test."""
    driver: RunDriver[Said] = RunDriver()
    yield driver
    driver.finish(None, outcome="completed")
