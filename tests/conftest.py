"""What every test stands on: both event loops, and the shared inputs where they are present."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
PEERS = ROOT / ".cache" / "peers"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both."""
    return request.param


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
