"""What a tool is: declaration, arguments, values. No loop, no task, no thread."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any
from uuid import UUID

import anyio.to_thread
import pytest
from ag_ui.core import ImagePart, TextPart, UrlSource
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from handrail import Tool, ToolContext, tool
from handrail.tools import ArgumentsError, as_content, catalogue, completed, error_text, groups, taken


class Place(BaseModel):
    model_config = ConfigDict(strict=True)

    city: str
    since: datetime | None = None
    pair: tuple[int, int] = (0, 0)


class Color(Enum):
    RED = "red"


class Mood(StrEnum):
    GOOD = "good"


@dataclass
class Point:
    x: int
    label: Color


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


async def ended(value: Any) -> Any:
    """The content of what a call gave."""
    return await completed(value, anyio.to_thread.run_sync, lambda: False)


# Declaration


def test_declaration_comes_from_the_function() -> None:
    """L-80: name, docstring, closed schema of the signature, described parameters."""
    made = tool(weather)
    assert (made.name, made.description) == ("weather", "Tell the weather.\n\nFor some days.")
    assert made.parameters["additionalProperties"] is False
    assert made.parameters["required"] == ["city"]
    assert made.parameters["properties"]["city"]["description"] == "where to look"
    assert made.parameters["properties"]["days"] == {"type": "integer", "default": 3, "title": "Days"}
    json.dumps(made.parameters)


def test_options_replace_what_the_function_says() -> None:
    """L-80: name and description can be given; timeout, parallel and needs_approval are kept."""

    @tool(name="w-2", description="d", timeout=2.5, parallel=True, needs_approval=True)
    def f() -> None: ...

    assert (f.name, f.description, f.timeout, f.parallel, f.needs_approval) == ("w-2", "d", 2.5, True, True)
    plain = Tool(weather)
    assert (plain.timeout, plain.parallel, plain.needs_approval) == (None, False, False)
    assert Tool(lambda: None, name="no_doc").description == ""


def test_context_parameter_is_filled_in_and_not_declared() -> None:
    """L-80: a parameter annotated ToolContext, also optional or annotated further, belongs to the loop."""

    def f(x: int, ctx: ToolContext) -> Any:
        return x, ctx

    def g(ctx: ToolContext | None = None, *, x: int) -> Any:
        return x, ctx

    def h(ctx: Annotated[ToolContext, "the run"], x: int) -> Any:
        return x, ctx

    for fn in (f, g, h):
        made, ctx = Tool(fn), context()
        assert list(made.parameters["properties"]) == ["x"]
        assert run(made, made.check('{"x": 1}'), ctx) == (1, ctx)
        with pytest.raises(ArgumentsError, match="ctx"):
            made.check('{"x": 1, "ctx": null}')


def test_given_schema_is_declared_as_it_is() -> None:
    """L-80: with schema= the object is declared unchanged, and arguments are only checked to be an object."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}

    def f(ctx: ToolContext, **given: Any) -> Any:
        return given, ctx.name

    made = Tool(f, schema=schema)
    assert made.parameters == schema
    assert run(made, made.check('{"anything": [1]}')) == ({"anything": [1]}, "t")
    with pytest.raises(ArgumentsError, match="object"):
        made.check("[1]")


def test_a_tool_needs_no_pydantic_types_with_a_schema() -> None:
    """L-80: with schema= a signature that pydantic cannot read is no obstacle."""

    class Odd: ...

    def f(x: Odd) -> Any:
        return x

    with pytest.raises(TypeError, match="schema="):
        Tool(f)
    assert run(Tool(f, schema={"type": "object"}), {"x": 1}) == 1


def test_a_default_that_json_cannot_say_is_kept_out_of_the_schema() -> None:
    """L-80: no warning, the parameter is optional and the function has its own default."""
    default = object()

    def f(x: Any = default) -> Any:
        return x

    made = Tool(f)
    assert "required" not in made.parameters
    assert run(made, made.check("")) is default


def test_open_keywords_stay_open() -> None:
    """L-80: the schema is that of the signature, and `**kwargs` takes any name."""

    def f(**given: int) -> Any:
        return given

    made = Tool(f)
    assert run(made, made.check('{"a": 1}')) == {"a": 1}
    with pytest.raises(ArgumentsError, match="a"):
        made.check('{"a": "no"}')


def test_parameters_may_have_any_name_and_an_alias() -> None:
    """L-80: names that pydantic models keep for themselves, underscores and aliases all work."""

    def f(schema: str, copy: int, _hidden: int = 1, from_: Annotated[str, Field(alias="from")] = "here") -> Any:
        return schema, copy, _hidden, from_

    made = Tool(f)
    assert set(made.parameters["properties"]) == {"schema", "copy", "_hidden", "from"}
    assert run(made, made.check('{"schema": "s", "copy": 2, "from": "there"}')) == ("s", 2, 1, "there")


def test_local_classes_in_annotations_that_are_text() -> None:
    """L-80: annotations are text in this module, and still name what the enclosing function defines."""

    class Local(BaseModel):
        x: int

    def f(local: Local) -> Any:
        return local

    assert run(Tool(f), {"local": {"x": 1}}) == Local(x=1)


def test_methods_partials_and_callable_objects() -> None:
    """L-80: whatever can be called by name is a tool; what has no name of its own gets one."""

    class Service:
        def ask(self, q: str) -> str:
            """Ask."""
            return q

        async def __call__(self, q: str) -> str:
            return q

    made = Tool(Service().ask)
    assert (made.name, made.description, list(made.parameters["properties"])) == ("ask", "Ask.", ["q"])
    half = Tool(functools.partial(weather, days=7))
    assert half.name == "weather"
    assert run(half, half.check('{"city": "Rome"}')) == "Rome:7"
    assert Tool(Service(), name="service").is_async
    with pytest.raises(ValueError, match="name="):
        Tool(Service())


def test_is_async() -> None:
    """L-88: coroutine functions and async generators run as tasks, anything else in a thread."""

    async def f() -> None: ...

    async def g() -> AsyncIterator[int]:
        yield 1

    assert Tool(f).is_async
    assert Tool(g).is_async
    assert Tool(functools.partial(f)).is_async
    assert not Tool(weather).is_async


def test_a_decorated_function_can_still_be_called() -> None:
    """L-80: a Tool is the function it was made of."""
    assert tool(weather)("Rome") == "Rome:3"
    assert repr(tool(weather)) == "<Tool weather>"


# Refusals


def _positional(x: int, /) -> None: ...
def _star(*args: int) -> None: ...


@pytest.mark.parametrize(
    ("make", "error", "fix"),
    [
        (lambda: Tool(_positional), TypeError, "positional-only"),
        (lambda: Tool(_star), TypeError, r"\*args"),
        (lambda: Tool(_star, schema={}), TypeError, r"\*args"),
        (lambda: Tool(42), TypeError, "cannot be called"),  # pyright: ignore
        (lambda: Tool(lambda: None), ValueError, "name="),
        (lambda: Tool(weather, name="a b"), ValueError, "name="),
        (lambda: Tool(weather, name="x" * 65), ValueError, "name="),
        (lambda: Tool(weather, name="a\n"), ValueError, "name="),
        (lambda: Tool(weather, name=""), ValueError, "name="),
        (lambda: Tool(weather, timeout=0), ValueError, "above 0"),
        (lambda: Tool(weather, timeout=-1), ValueError, "above 0"),
        (lambda: Tool(weather, timeout=float("nan")), ValueError, "above 0"),
        (lambda: Tool(weather, schema=[]), TypeError, "dict"),  # pyright: ignore
        (lambda: Tool(Tool(weather)), TypeError, "already"),
        (lambda: tool(timeout=0)(weather), ValueError, "above 0"),
        (lambda: catalogue([weather, Tool(weather)]), ValueError, "two tools"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_made(make: Any, error: type[Exception], fix: str) -> None:
    """L-2: TypeError or ValueError, with the fix."""
    with pytest.raises(error, match=fix):
        make()


def test_an_annotation_that_names_nothing_is_refused() -> None:
    """L-2: with the tool, the name and the fix."""

    def f(x: Missing) -> None: ...  # noqa: F821  # pyright: ignore

    with pytest.raises(TypeError, match=r"tool f .*Missing.*import"):
        Tool(f)


def test_catalogue_keeps_order_and_makes_tools() -> None:
    """L-2: functions and Tools side by side, by name."""
    known = catalogue([weather, Tool(weather, name="b")])
    assert list(known) == ["weather", "b"]


# Arguments


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


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


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


# Groups


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("ppsp", ["pp", "s", "p"]),
        ("", []),
        ("s", ["s"]),
        ("ss", ["s", "s"]),
        ("spp", ["s", "pp"]),
        ("ppp", ["ppp"]),
    ],
)
def test_neighbours_that_are_parallel_share_a_group(calls: str, expected: list[str]) -> None:
    """L-89: p,p,s,p is [p,p],[s],[p]; the order stays."""
    assert ["".join(group) for group in groups(calls, lambda call: call == "p")] == expected


# Context


def test_context_tells_the_run_through_what_it_was_given() -> None:
    """L-97: values to read, `cancelled` to poll, progress and log that say whether they were accepted."""
    told: list[Any] = []
    ctx = context(
        arguments='{"x": 1}',
        round=2,
        cancelled=lambda: True,
        progress=lambda *a: bool(told.append(a)) or True,
        log=lambda *a: bool(told.append(a)) or True,
    )
    assert (ctx.run_id, ctx.call_id, ctx.name, ctx.arguments) == ("r", "c", "t", '{"x": 1}')
    assert (ctx.round, ctx.thread_id, ctx.cancelled) == (2, None, True)
    assert ctx.progress(1)
    assert ctx.progress(1, 2, "half")
    assert ctx.log("x")
    assert ctx.log({"a": 1}, "warning")
    assert told == [(1, None, None), (1, 2, "half"), ("x", "info"), ({"a": 1}, "warning")]
    assert "t" in repr(ctx)


def test_context_refuses_a_level_that_is_none() -> None:
    """L-97, L-12: misuse is said at once."""
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        context().log("x", "loud")  # pyright: ignore


def test_a_context_of_nobody_answers_false() -> None:
    """L-97: without a run behind it nothing is accepted; handy in a user's own tests."""
    ctx = context()
    assert (ctx.cancelled, ctx.progress(1), ctx.log("x")) == (False, False, False)
