"""Clean-up of a child: in its own time, whatever it leaves, and what it raises is not lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from handrail.run._loops import children


async def cleaned_up(work: Callable[[], Awaitable[object]], seconds: float = 0.01) -> list[BaseException | None]:
    """What came out of a clean-up with so much time: an exception, or None."""
    out: list[BaseException | None] = []

    async def child() -> None:
        try:
            await tasks.clean_up(seconds, work)
        except BaseException as error:  # noted, and nobody else's: the child ends here
            out.append(error)
        else:
            out.append(None)

    async with children() as tasks:
        tasks.start(child, "child")
    return out


async def test_a_clean_up_ends_with_its_time() -> None:
    """Closing is bounded, and the end of its time is no failure of the child."""
    assert await cleaned_up(anyio.sleep_forever) == [None]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
async def test_what_is_raised_behind_the_time_comes_out(kind: type[BaseException]) -> None:
    """What closing raises when its time is over is not taken for the end of the time."""

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise kind("while closing")

    [error] = await cleaned_up(work)
    assert isinstance(error, kind)
