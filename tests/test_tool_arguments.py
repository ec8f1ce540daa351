"""What a tool is called with: its arguments, checked."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calling import Color, Place, json_values, run, weather

from handrail import Tool
from handrail.tools import ArgumentsError


@pytest.mark.parametrize("text", ["", "  ", "\n", None, "{}"])
def test_blank_arguments_are_an_empty_object(text: str | None) -> None:
    """L-81, L-82: blank or absent text means `{}`."""
    assert Tool(lambda: None, name="bare").check(text) == {}
    with pytest.raises(ArgumentsError, match="city"):
        Tool(weather).check(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"city": ', "not JSON"),
        ('{"city": NaN}', "NaN"),
        ("[1]", "array"),
        ("null", "null"),
        ('"x"', "object"),
        ('{"city": 3}', "city"),
        ('{"city": "x", "days": "many"}', "days"),
        ('{"city": "x", "country": "F"}', "country"),
        ('{"city": "\\ud83d"}', "weather"),
        ("[" * 100_000, "not JSON"),
        ('{"city": "x", "days": ' + "9" * 5_000 + "}", "weather"),
    ],
)
def test_arguments_that_do_not_fit_say_what_and_where(text: str, names: str) -> None:
    """L-81: the error names the problem and the parameter; the function is not called."""
    calls: list[Any] = []

    def weather(city: str, days: int = 3) -> None:
        calls.append(city)

    with pytest.raises(ArgumentsError, match=names):
        Tool(weather).check(text)
    assert calls == []


def test_a_nested_problem_is_named_by_its_path() -> None:
    """L-81: the path leads to the field of a model."""

    def f(place: Place) -> None: ...

    with pytest.raises(ArgumentsError, match=r"place\.city"):
        Tool(f).check('{"place": {}}')


def test_checked_arguments_are_json_and_the_function_gets_its_types() -> None:
    """L-81: outside the tool an object of JSON, inside it what the signature says, also for strict models."""

    def f(place: Place, wait: timedelta, color: Color, ids: set[UUID]) -> Any:
        return place, wait, color, ids

    made = Tool(f)
    text = (
        '{"place": {"city": "Rome", "since": "2026-01-02T03:04:05Z", "pair": [1, 2]}, "wait": "PT5S", '
        '"color": "red", "ids": ["12345678-1234-5678-1234-567812345678"]}'
    )
    checked = made.check(text)
    assert checked == json.loads(text)
    place, wait, color, ids = run(made, checked)
    assert place == Place(city="Rome", since=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), pair=(1, 2))
    assert (wait, color, ids) == (
        timedelta(seconds=5),
        Color.RED,
        {UUID("12345678-1234-5678-1234-567812345678")},
    )


def test_edited_arguments_are_checked_like_any() -> None:
    """L-122: an object instead of text; the copy is nobody else's."""
    made = Tool(lambda xs: xs, name="f")
    edited: dict[str, Any] = {"xs": [1]}
    checked = made.check_object(edited)
    edited["xs"].append(2)
    assert checked == {"xs": [1]}
    for wrong in ({"ys": 1}, [1], None, {"xs": object()}, {"xs": float("inf")}):
        with pytest.raises(ArgumentsError, match="f"):
            made.check_object(wrong)


@given(st.dictionaries(st.text(), json_values, max_size=4))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_any_object_passes_an_open_tool_unchanged(found: dict[str, Any]) -> None:
    """L-81: what was written is what is checked and what the function gets."""
    made = Tool(lambda **given: given, name="f", schema={})
    assert made.check(json.dumps(found)) == found


@given(st.text(max_size=40))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_no_text_escapes_the_check(text: str) -> None:
    """L-81: any text is either an object that fits or an ArgumentsError."""
    made = Tool(lambda x=1: x, name="f")
    with contextlib.suppress(ArgumentsError):
        assert set(made.check(text)) <= {"x"}
