"""Tools whose own code raises where nobody expects it: validators, defaults, values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, Field, computed_field, model_validator

from handrail import Tool, ToolContext
from handrail.tools import ArgumentsError, as_content


def _refuse(value: int) -> int:
    raise KeyError("gone")


class Picky(BaseModel):
    a: int = 0

    @model_validator(mode="after")
    def look(self) -> Picky:
        raise LookupError("gone")


class Unreadable(Mapping[str, Any]):
    """A mapping that raises when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("gone")

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


class Computed(BaseModel):
    @computed_field
    @property
    def x(self) -> int:
        raise KeyError("gone")


@dataclass
class Unset:
    later: int = field(init=False)


class Classless:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("gone")


def checked(x: Annotated[int, AfterValidator(_refuse)]) -> int:
    return x


def modelled(x: Picky) -> int:
    return x.a


def defaulted(x: Annotated[int, Field(default_factory=lambda: _refuse(0))]) -> int:
    return x


@pytest.mark.parametrize(
    ("fn", "arguments"), [(checked, '{"x": 1}'), (modelled, '{"x": {}}'), (defaulted, "{}")], ids=str
)
def test_whatever_a_validator_raises_refuses_the_arguments(fn: Callable[..., Any], arguments: str) -> None:
    """L-81: values that the tool's own checks refuse, by whatever exception, are arguments that do not fit."""
    with pytest.raises(ArgumentsError, match=r"arguments of t do not fit: (Key|Lookup)Error: .*gone"):
        Tool(fn, name="t").check(arguments)


def test_edited_arguments_that_cannot_be_read() -> None:
    """L-81: a mapping that raises is refused as anything that is no JSON."""
    with pytest.raises(ArgumentsError, match="RuntimeError: gone"):
        Tool(checked, name="t").check_object(Unreadable())


@pytest.mark.parametrize(("levels", "fits"), [(199, True), (200, False), (600, False)])
def test_arguments_are_nested_no_deeper_than_can_be_said(levels: int, fits: bool) -> None:
    """L-81, L-11: 200 levels, the object itself among them; deeper ones could be written into no event."""
    made = Tool(lambda x: x, name="t", schema={})
    text = '{"x": ' + "[" * levels + "]" * levels + "}"
    if fits:
        assert set(made.check(text)) == {"x"}
        return
    with pytest.raises(ArgumentsError, match="deeper than 200"):
        made.check(text)


@pytest.mark.parametrize("made", [Computed, Unset, Unreadable, Classless, lambda: [{"a": Unset()}]])
def test_a_value_that_raises_when_it_is_read_is_no_result(made: Callable[[], Any]) -> None:
    """L-84: whatever it raises, it is a value that cannot be expressed."""
    with pytest.raises(ValueError, match=r"cannot be a tool's result: (KeyError|AttributeError|RuntimeError)"):
        as_content(made())


def logging_to(taken: list[Any]) -> ToolContext:
    def take(data: Any, level: str) -> bool:
        taken.append(data)
        return True

    return ToolContext(run_id="r", call_id="c", name="t", log=take, progress=lambda *said: take(said, ""))


def test_what_a_tool_logs_is_a_copy_in_plain_json_data() -> None:
    """L-97, L-11: sets, bytes, ids and numbers that are none; what JSON does not know is told by its text."""
    taken: list[Any] = []
    said: dict[Any, Any] = {"set": {1}, "bytes": b"\xff", "inf": math.inf, "id": UUID(int=1), "odd": object(), 7: [1]}
    assert logging_to(taken).log(said)
    said[7].append(2)
    assert taken[0]["set"] == [1]
    assert taken[0]["inf"] is None
    assert taken[0]["7"] == [1]
    assert "object" in taken[0]["odd"]
    json.dumps(taken[0], allow_nan=False)


def test_what_cannot_be_logged_is_refused_at_once() -> None:
    """L-97, L-11: no data at all, data that refers to itself, and numbers that say nothing."""
    taken: list[Any] = []
    ctx = logging_to(taken)
    around: dict[str, Any] = {}
    around["again"] = around
    for data, error in ((object(), TypeError), (None, TypeError), (around, ValueError), (Unreadable(), ValueError)):
        with pytest.raises(error, match="log"):
            ctx.log(data)  # type: ignore[arg-type]
    for value, error in ((math.nan, ValueError), (math.inf, ValueError), ("1", TypeError), (True, TypeError)):
        with pytest.raises(error, match="progress"):
            ctx.progress(value)  # type: ignore[arg-type]
        with pytest.raises(error, match="total"):
            ctx.progress(1, value)  # type: ignore[arg-type]
    assert taken == []
