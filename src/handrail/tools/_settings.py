"""What a setting may be: the checks that every option of this package goes through when it is made.

NaN is refused everywhere: compared with it nothing is ever reached. Infinity is a number like any, where one is meant.
"""

from __future__ import annotations

import inspect
from decimal import Decimal
from math import isnan

__all__ = ["require_callable", "require_flag", "require_number", "require_seconds", "require_whole"]


def require_whole(value: object, name: str, least: int, fix: str) -> None:
    """Raises `TypeError` for what is no int, `ValueError` for one below `least`; `fix` ends the sentence."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {value!r}: {fix}")
    if value < least:
        raise ValueError(f"{name} is {value}: {fix}")


def require_number(value: object, name: str, fix: str) -> None:
    """Raises `TypeError` for what is no number, `ValueError` for NaN and for one below 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError(f"{name} is a number, not {value!r}: {fix}")
    if isnan(value) or value < 0:
        raise ValueError(f"{name} is {value}: {fix}")


def require_seconds(value: object, name: str) -> None:
    """A timeout, for which None is none. Raises `TypeError` or `ValueError` for what is no number above 0."""
    fix = "it is a number of seconds above 0, or None for none"
    if value is None:
        return
    require_number(value, name, fix)
    if value == 0:
        raise ValueError(f"{name} is {value}: {fix}")


def require_callable(value: object, name: str, what: str, takes: int) -> None:
    """Raises `TypeError` for what is neither None nor to be called with `takes` arguments; `what` says what it is.

    What has no signature to look at, as some of C have none, is believed.
    """
    if value is None:
        return
    if not callable(value):
        raise TypeError(f"{name} is {what}, and {value!r} cannot be called")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(takes))
    except TypeError as misfit:
        raise TypeError(f"{name} is {what}, and {value!r} cannot be called as that: {misfit}") from misfit


def require_flag(value: object, name: str) -> None:
    """Raises `TypeError` for what is not True or False: "no" would count as true."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {value!r}")
