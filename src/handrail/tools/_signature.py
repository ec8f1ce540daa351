"""How a function's signature is read: what a model is told of it, and how JSON becomes its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from handrail.tools._context import ToolContext

__all__ = ["Signature", "without_partials"]

_NOT_BY_NAME = {
    inspect.Parameter.POSITIONAL_ONLY: "a positional-only parameter",
    inspect.Parameter.VAR_POSITIONAL: "a parameter *args",
}


class Signature:
    """The signature of a tool's function: `context_names` are the parameters that the run fills in.

    Raises `TypeError` for one that cannot be called by name, or whose annotations cannot be resolved.
    """

    def __init__(self, fn: Callable[..., Any], tool_name: str) -> None:
        self._tool_name = tool_name
        self._signature = _left_to_give(fn, _by_name_only(fn, tool_name))
        body = _body(without_partials(fn))
        self._hints = _resolved_hints(self._signature, inspect.unwrap(body), tool_name)
        self.is_async = inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
        self.context_names = tuple(name for name in self._signature.parameters if _is_context(self._hints.get(name)))

    def compiled(self) -> tuple[dict[str, Any], Callable[[str], dict[str, Any]]]:
        """The JSON schema of the declared parameters, and what turns JSON text into their values.

        Pydantic reads a stand-in of the same signature that gives its arguments back, so that checking calls nothing.
        """

        def arguments(**given: Any) -> dict[str, Any]:
            return given

        declared = [p for p in self._signature.parameters.values() if p.name not in self.context_names]
        arguments.__signature__ = self._signature.replace(parameters=declared)  # pyright: ignore[reportFunctionMemberAccess]  # where inspect.signature looks
        arguments.__annotations__ = {p.name: self._hints[p.name] for p in declared if p.name in self._hints}
        try:
            adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(cast("Any", arguments))
            return adapter.json_schema(schema_generator=_Schema), adapter.validate_json
        except PydanticUserError as error:
            raise TypeError(
                f"a parameter of tool {self._tool_name} has no JSON schema: annotate it with a type that pydantic "
                f"knows, or pass schema= ({str(error).splitlines()[0]})"
            ) from error


class _Schema(GenerateJsonSchema):
    # A default that JSON cannot say is left out of the schema; the function still has it.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # pydantic's


def without_partials(fn: Callable[..., Any]) -> Callable[..., Any]:
    """What `functools.partial`, or `staticmethod`, was given, however often."""
    while isinstance(fn, (partial, staticmethod)):
        fn = fn.func if isinstance(fn, partial) else fn.__func__
    return fn


def _body(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that runs, and has the annotations, when `fn` is called."""
    if inspect.isclass(fn):
        return fn.__init__
    return fn if inspect.isroutine(fn) else fn.__call__


def _by_name_only(fn: Callable[..., Any], tool_name: str) -> inspect.Signature:
    try:
        signature = inspect.signature(fn)
    except ValueError:
        raise TypeError(f"tool {tool_name} shows no signature: wrap it in a function of yours") from None
    for parameter in signature.parameters.values():
        if parameter.kind in _NOT_BY_NAME:
            raise TypeError(
                f"tool {tool_name} has {_NOT_BY_NAME[parameter.kind]} ({parameter}), and a model passes arguments by "
                "name: make it an ordinary parameter"
            )
    return signature


def _left_to_give(fn: Callable[..., Any], signature: inspect.Signature) -> inspect.Signature:
    """The signature without what a `partial` gives by name: it has been decided, and may be a secret."""
    given: set[str] = set()
    while isinstance(fn, partial):
        given |= fn.keywords.keys()
        fn = fn.func
    return signature.replace(parameters=[p for p in signature.parameters.values() if p.name not in given])


def _resolved_hints(signature: inspect.Signature, body: Callable[..., Any], tool_name: str) -> dict[str, Any]:
    """What the parameters are annotated with. That of the result may name what only a type checker has."""
    written = {p.name: p.annotation for p in signature.parameters.values() if p.annotation is not p.empty}
    annotated = SimpleNamespace(__annotations__=written)
    try:
        return get_type_hints(annotated, getattr(body, "__globals__", {}), _enclosing_names(body), include_extras=True)
    except NameError as error:
        raise TypeError(
            f"an annotation of tool {tool_name} cannot be resolved ({error}): define or import that name where the "
            "function's module can see it"
        ) from None


def _enclosing_names(body: Callable[..., Any]) -> dict[str, Any]:
    """The local names of the function that `body` is defined in, while that one runs.

    Annotations that are text may name a class of its body, and only its frame knows those.
    """
    outer = getattr(body, "__qualname__", "").rpartition(".<locals>.")[0]
    frame = inspect.currentframe() if outer else None
    while frame is not None:
        if frame.f_code.co_qualname == outer and frame.f_globals is getattr(body, "__globals__", None):
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def _is_context(hint: Any) -> bool:
    if get_origin(hint) in (Annotated, Union, UnionType):
        return any(_is_context(part) for part in get_args(hint))
    return hint is ToolContext
