"""How long property tests look: a moment in every run, as long as asked for by `HANDRAIL_FUZZ=N` (N times as much)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FACTOR = int(os.environ.get("HANDRAIL_FUZZ", "1"))


def effort(examples: int) -> settings:
    """Settings for so many examples; the same ones each time, unless more were asked for."""
    return settings(
        max_examples=examples * FACTOR,
        deadline=None,
        derandomize=FACTOR == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
