"""What a tool is: its declaration, and what cannot be one. No loop, no task, no thread."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from tests.calling import context, run, weather

from handrail import Tool, ToolContext, tool
from handrail.tools import ArgumentsError, catalogue, groups

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


def somewhere(q: str) -> str:
    return q


class Desk:
    """A class whose methods are tools, in each way it can be written."""

    sign = "!"

    @tool(parallel=True, timeout=3)
    def look(self, q: str, ctx: ToolContext | None = None) -> str:
        """Look it up."""
        return q + self.sign

    @tool
    async def wait(self, q: str) -> str:
        return q + self.sign

    @tool(schema={"type": "object"})
    def anything(self, **given: str) -> str:
        return str(given) + self.sign

    @tool
    @staticmethod
    async def plain(q: str) -> str:
        return q

    kept = Tool(somewhere)


class Annex(Desk):
    sign = "?"


@pytest.mark.parametrize(("desk", "sign"), [(Desk(), "!"), (Annex(), "?")])
def test_a_method_that_was_made_a_tool_in_its_class(desk: Desk, sign: str) -> None:
    """L-80: read from an object it is a tool of the bound method, with its options; `self` is nobody's to give."""
    assert [list(one.parameters["properties"]) for one in (desk.look, desk.wait, desk.plain, desk.kept)] == [["q"]] * 4
    look = desk.look
    assert (look.name, look.description, look.parallel, look.timeout) == ("look", "Look it up.", True, 3)
    assert run(look, {"q": "tea"}) == f"tea{sign}"
    assert look("tea") == Desk.look(desk, "tea") == f"tea{sign}"
    assert desk.wait.is_async
    assert desk.plain.is_async
    assert (desk.anything.parameters, run(desk.anything, {"a": "b"})) == ({"type": "object"}, f"{{'a': 'b'}}{sign}")
    assert run(desk.kept, {"q": "tea"}) == "tea"


def test_what_a_partial_gives_by_name_is_not_the_models_to_give() -> None:
    """L-80: an argument that is bound is decided: it is not declared, not shown as a default, and not accepted."""

    def search(q: str, key: str, limit: int = 5) -> str:
        return f"{q} {key} {limit}"

    bound = Tool(functools.partial(functools.partial(search, key="s3cret"), limit=9))
    assert list(bound.parameters["properties"]) == ["q"]
    assert "s3cret" not in json.dumps(bound.parameters)
    assert run(bound, bound.check('{"q": "tea"}')) == "tea s3cret 9"
    with pytest.raises(ArgumentsError, match="key"):
        bound.check('{"q": "tea", "key": "mine"}')


def test_the_annotation_of_the_result_need_not_be_known() -> None:
    """L-80: what a function returns is imported for type checkers only, often; the parameters have to be known."""

    def f(city: str) -> NowhereDefined:  # noqa: F821  # pyright: ignore
        return city

    def g(city: NowhereDefined) -> str:  # noqa: F821  # pyright: ignore
        return city

    assert Tool(f).parameters["properties"]["city"]["type"] == "string"
    with pytest.raises(TypeError, match="NowhereDefined"):
        Tool(g)


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = 1


def test_a_signature_that_says_more_than_the_annotations() -> None:
    """L-80: the class of a model, and a function whose maker gave it a signature, are tools by that signature."""
    made = Tool(Person)
    assert (made.name, made.description) == ("Person", "Somebody.")
    assert {name: one["type"] for name, one in made.parameters["properties"].items()} == {
        "name": "string",
        "age": "integer",
    }
    assert run(made, made.check('{"name": "Ada"}')) == Person(name="Ada")

    def anything(**given: Any) -> Any:
        return given

    x = inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=int)
    anything.__signature__ = inspect.Signature([x])  # type: ignore[attr-defined]
    assert run(Tool(anything), {"x": "3"}) == {"x": 3}


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
