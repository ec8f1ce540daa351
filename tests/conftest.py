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
    parser.addoption("--sample", type=int, metavar="N", help="run only the first N tests of each module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A look at everything in a few seconds, for `make quick`; a module's own order is the order of its importance."""
    size: int | None = config.getoption("sample")
    if size is None:
        return
    taken: Counter[object] = Counter()
    chosen: list[pytest.Item] = []
    for item in items:
        module = item.nodeid.partition("::")[0]
        if item.get_closest_marker("slow") is None and taken[module] < size:
            taken[module] += 1
            chosen.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


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
