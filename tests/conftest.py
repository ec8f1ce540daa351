"""What every test stands on: the event loops, and the shared inputs where they are present."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.event_loops import HERE, EventLoop, chosen

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
PEERS = ROOT / ".cache" / "peers"


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts its background jobs so, and children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    only = "run only the first N tests of each module on each event loop"
    parser.addoption("--sample", type=int, metavar="N", help=only)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have reports name the event loop of each test, and leave out what is not in the sample."""
    for item in items:
        item.user_properties.append(("event_loop", _event_loop_of(item) or "none"))
    size: int | None = config.getoption("sample")
    if size is not None:
        sample = _sample_of(items, size)
        config.hook.pytest_deselected(items=[item for item in items if item not in sample])
        items[:] = [item for item in items if item in sample]


def _sample_of(items: list[pytest.Item], size: int) -> set[pytest.Item]:
    """A look at everything in a few seconds; a module's own order is the order of its importance."""
    taken: Counter[object] = Counter()
    sample: set[pytest.Item] = set()
    for item in items:
        place = item.nodeid.partition("::")[0], _event_loop_of(item) or chosen()[0]
        if item.get_closest_marker("slow") is None and taken[place] < size:
            taken[place] += 1
            sample.add(item)
    return sample


def _event_loop_of(item: pytest.Item) -> str | None:
    """The name of the event loop that a test runs on; None for one that is no coroutine."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("anyio_backend")


@pytest.fixture(params=chosen())
def anyio_backend(request: pytest.FixtureRequest) -> EventLoop:
    """Every async test runs on each."""
    return HERE[request.param]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of inputs made by others; it lies beside a checkout, and not everywhere."""
    if not SHARED.is_dir():
        pytest.skip("the shared inputs are not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def peers() -> Path:
    """The npm packages that tests run against, installed by `make test` where npm is present."""
    if not (PEERS / "node_modules").is_dir():
        pytest.skip("the npm packages are not installed (no npm here); `make test` installs them where it is")
    return PEERS
