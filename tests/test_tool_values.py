"""What a call gives: awaitables, iterators, and the text that a value becomes."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import anyio.to_thread
import pytest
from ag_ui.core import ImagePart, TextPart, UrlSource
from hypothesis import given, settings
from tests.calling import Color, Place, context, json_values, run

from handrail import Tool
from handrail.tools import as_content, completed, error_text, taken


class Mood(StrEnum):
    GOOD = "good"


@dataclass
class Point:
    x: int
    label: Color


async def ended(value: Any) -> Any:
    """The content of what a call gave."""
    return await completed(value, anyio.to_thread.run_sync, lambda: False)


# Calls


async def test_async_functions_give_a_coroutine() -> None:
    """L-85: an async tool is a coroutine; what it returns is read to its end."""

    async def f(x: int) -> Any:
        return (n for n in range(x))

    call = Tool(f).call({"x": 3}, context())
    assert inspect.iscoroutine(call)
    assert await ended(call) == "[0,1,2]"


async def test_awaitables_generators_and_iterators() -> None:
    """L-85: an awaitable is awaited, a generator or iterator read into a list, async ones too."""

    async def inner() -> Any:
        return iter([1, 2])

    async def stream() -> AsyncIterator[int]:
        yield 1
        yield 2

    def numbers() -> Iterator[int]:
        yield from (1, 2)

    for fn in (lambda: inner(), lambda: stream(), numbers, lambda: map(int, "12")):
        assert await ended(run(Tool(fn, name="f"), {})) == "[1,2]"
    call = Tool(stream).call({}, context())
    assert inspect.iscoroutine(call)
    assert await ended(call) == "[1,2]"
    assert await ended("plain") == "plain"


def test_a_generator_runs_inside_the_call() -> None:
    """L-85: reading is done in the thread of the call, so that its deadline and its exceptions are the call's."""

    def numbers() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        taken(run(Tool(numbers), {}), lambda: False)


# Values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("", ""),
        ("as it is: ✓", "as it is: ✓"),
        (3, "3"),
        (True, "true"),
        (1.5, "1.5"),
        (float("nan"), "null"),
        ([], "[]"),
        ({}, "{}"),
        ({"a": 1, "é": [None]}, '{"a":1,"é":[null]}'),
        ((1, "x"), '[1,"x"]'),
        ({5}, "[5]"),
        (frozenset({5}), "[5]"),
        (Point(1, Color.RED), '{"x":1,"label":"red"}'),
        (Place(city="Rome", since=datetime(2026, 1, 2, tzinfo=UTC)), None),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), '"2026-01-02T03:04:05Z"'),
        (Decimal("1.10"), '"1.10"'),
        (UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (Color.RED, '"red"'),
        (Mood.GOOD, '"good"'),
        ({Color.RED: 1}, '{"red":1}'),
        ("x" * 2_000_000, "x" * 2_000_000),
    ],
)
def test_values_become_text(value: Any, text: str | None) -> None:
    """L-84: text as it is, nothing as nothing, the rest as JSON; the length is not limited."""
    if text is None:
        assert json.loads(str(as_content(value))) == {"city": "Rome", "since": "2026-01-02T00:00:00Z", "pair": [0, 0]}
    else:
        assert as_content(value) == text


def test_content_parts_stay_parts() -> None:
    """L-84: one AG-UI content part, or a list of nothing else."""
    text, image = TextPart(text="t"), ImagePart(source=UrlSource(value="https://x/i.png"))
    assert as_content(text) == [text]
    assert as_content([text, image]) == [text, image]
    assert isinstance(as_content([text, 1]), str)


cycle: list[Any] = []
cycle.append(cycle)


@pytest.mark.parametrize("value", [b"bytes", object(), {"a": b"x"}, [object()], {(1, 2): 3}, 1j, cycle, int, Point])
def test_what_json_cannot_express_is_an_error(value: Any) -> None:
    """L-84: bytes and anything else; never a crash of another kind."""
    with pytest.raises(ValueError, match="cannot be a tool's result"):
        as_content(value)


@given(json_values)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_json_values_survive(value: Any) -> None:
    """L-84: what is JSON already is written as it is."""
    if value is not None and not isinstance(value, str):
        assert json.loads(str(as_content(value))) == value


def test_error_text() -> None:
    """L-86: "ClassName: message", cut to 4,000 characters, for every exception there is."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(ValueError("no")) == "ValueError: no"
    assert error_text(ValueError()) == "ValueError"
    assert error_text(Mute()) == "Mute"
    assert len(error_text(ValueError("x" * 9_000))) == 4_000
