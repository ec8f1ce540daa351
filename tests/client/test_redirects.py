"""What is said of an agent that is elsewhere."""

from __future__ import annotations

import pytest
from tests.client.transports import ended, serve

from handrail.errors import HttpError


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_the_place_is_named(status: int) -> None:
    """P-68, P-69: most often it is the last slash of the path; a query may hold a secret and is left out."""
    run = await ended(serve(status=status, headers={"location": "http://agent/agui/?token=x"}))
    cause = run.report.cause
    assert isinstance(cause, HttpError)
    assert str(cause).endswith("; the agent is at http://agent/agui/, and redirects are not followed")
    assert cause.location == "http://agent/agui/?token=x"


@pytest.mark.parametrize(("status", "headers"), [(401, {"location": "/login"}), (307, {}), (304, {"location": "/x"})])
async def test_what_is_no_redirect(status: int, headers: dict[str, str]) -> None:
    """P-69: nothing is said of a place where there is none to go to."""
    run = await ended(serve(b"no", status=status, headers=headers))
    assert run.result.value.error == f"HTTP {status}: no"
