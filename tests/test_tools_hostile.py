"""Tools whose own code raises where nobody expects it: validators, defaults, values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, computed_field, model_validator

from handrail import Tool
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
