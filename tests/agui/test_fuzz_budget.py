"""A budget of events: recorded and made-up streams, damaged at random, until so many events were judged.

The budget is 35,000 in every run and `HANDRAIL_FUZZ` times as many where that is set; the figures are printed.
"""

from __future__ import annotations

import random
import time

import pytest
from tests.agui.effort import FACTOR
from tests.agui.recordings import NAMES, recorded
from tests.agui.wires import asked_everything, pieces, read

BUDGET = 35_000 * FACTOR


def damaged(body: bytes, chance: random.Random) -> bytes:
    """The body with one to six stretches of it lost, doubled, moved, flipped or replaced by anything."""
    data = bytearray(body)
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((1, 1, 2, 8, 40, 200)))
        stretch = bytes(data[start:end])
        kind = chance.randrange(5)
        if kind == 0:
            del data[start:end]
        elif kind == 1:
            data[start:start] = stretch
        elif kind == 2:
            del data[start:end]
            place = chance.randrange(len(data) + 1)
            data[place:place] = stretch
        elif kind == 3 and stretch:
            data[start] ^= 1 << chance.randrange(8)
        else:
            data[start:end] = chance.randbytes(chance.randint(0, 12))
    return bytes(data)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(not NAMES, reason="the shared inputs are not beside this checkout")
def test_a_budget_of_damaged_events(capsys: pytest.CaptureFixture[str]) -> None:
    """P-13, P-16, P-43: nothing but a verdict ever comes of a stream, however it is damaged and cut."""
    seed = 0 if FACTOR == 1 else time.time_ns()
    chance = random.Random(seed)
    events = streams = refused = 0
    began = time.perf_counter()
    while events < BUDGET:
        body, options, _ = recorded(chance.choice(NAMES))
        if len(body) > 60_000:
            continue
        body = damaged(body, chance)
        reading = asked_everything(read(pieces(body, chance.randrange(1000), longest=2000), **options))
        events += max(len(reading.events), 1)
        streams += 1
        refused += reading.verdict.failure == "client"
    seconds = time.perf_counter() - began
    with capsys.disabled():
        print(
            f"\nfuzz: {events} events of {streams} damaged streams in {seconds:.0f} s, {refused} refused (seed {seed})"
        )
    assert 0 < refused < streams
