"""Types, a tool, and short ways to call one."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated, Any

from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from handrail import Tool, ToolContext


class Place(BaseModel):
    model_config = ConfigDict(strict=True)

    city: str
    since: datetime | None = None
    pair: tuple[int, int] = (0, 0)


class Color(Enum):
    RED = "red"


def weather(city: Annotated[str, Field(description="where to look")], days: int = 3) -> str:
    """Tell the weather.

    For some days.
    """
    return f"{city}:{days}"


def context(**changes: Any) -> ToolContext:
    return ToolContext(**({"run_id": "r", "call_id": "c", "name": "t"} | changes))


def run(made: Tool, arguments: dict[str, Any], ctx: ToolContext | None = None) -> Any:
    call = made.call(arguments, ctx or context())
    assert callable(call)
    return call()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
