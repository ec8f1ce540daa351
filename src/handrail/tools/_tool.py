"""The tool itself: its declaration, the check of its arguments, the call; and how the calls of a turn are grouped."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import MethodType
from typing import Any, NoReturn, TypeVar, cast, overload

from pydantic import ValidationError

from handrail.tools._context import ToolContext
from handrail.tools._credentials import without_credentials
from handrail.tools._settings import require_flag, require_seconds
from handrail.tools._signature import Signature, without_partials
from handrail.tools._values import error_text

__all__ = ["ArgumentsError", "Tool", "catalogue", "groups", "tool"]

C = TypeVar("C")

_MAX_DEPTH = 200
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ArgumentsError(ValueError):
    """The arguments of a call do not fit its tool; the text is the error result that the model sees."""


class Tool:
    """A function that a model may call.

    `name` is the function's, `description` its docstring, `parameters` the JSON schema of its signature, closed
    unless it takes `**kwargs`. With `schema=` that one is declared as it is, and arguments are only checked to be an
    object. `timeout` is in seconds from the start of a call; `parallel=True` lets neighbouring calls run together;
    `needs_approval=True` runs nothing that nobody approved. Sync functions run in threads, async ones as tasks
    (`is_async`). Calling the tool calls the function. A tool that was made of a method, in the body of its class, is
    one of the bound method when it is read from an object.

    Raises `TypeError` or `ValueError` for what could not be called by name with JSON arguments.
    """

    __slots__ = (
        "_context_names",
        "_decode",
        "_is_method",
        "_schema",
        "description",
        "fn",
        "is_async",
        "name",
        "needs_approval",
        "parallel",
        "parameters",
        "timeout",
    )

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        parallel: bool = False,
        needs_approval: bool = False,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        _require_function(fn)
        inner = without_partials(fn)
        self.fn = fn
        self.name = _checked_name(getattr(inner, "__name__", None) if name is None else name)
        self.description = (inspect.getdoc(inner) or "") if description is None else description
        _check_options(self.name, self.description, timeout, parallel, needs_approval)
        self.timeout = timeout
        self.parallel = parallel
        self.needs_approval = needs_approval
        self._schema = schema
        self._is_method = False
        signature = Signature(fn, self.name)
        self.is_async = signature.is_async
        self._context_names = signature.context_names
        self.parameters: dict[str, Any]
        self._decode: Callable[[str], dict[str, Any]]
        if schema is None:
            self.parameters, self._decode = signature.compiled()
        else:
            self.parameters, self._decode = _checked_schema(schema, self.name), json.loads

    def check(self, arguments: str | None) -> dict[str, Any]:
        """The JSON object that `arguments` is, if the tool accepts it; blank or absent text means `{}`.

        Raises `ArgumentsError`, whose text names the problem and the parameter.
        """
        if arguments is None or not arguments.strip():
            return self.check_object({})
        try:
            found = json.loads(arguments, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ArgumentsError(f"The arguments of {self.name} are not JSON: {error}") from None
        return self.check_object(found)

    def check_object(self, arguments: object) -> dict[str, Any]:
        """The same for arguments that are an object already, as a person edits them; gives a copy."""
        if not isinstance(arguments, Mapping):
            raise ArgumentsError(f"The arguments of {self.name} must be a JSON object, not {_json_kind(arguments)}")
        text = self._encode(cast("Mapping[str, Any]", arguments))
        self._convert(text)
        checked = json.loads(text)
        if _is_too_deep(checked):
            raise ArgumentsError(f"The arguments of {self.name} are nested deeper than {_MAX_DEPTH} levels")
        return checked

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> Callable[[], Any] | Coroutine[Any, Any, Any]:
        """The call itself, not begun: for an async tool a coroutine, for a sync one a function to run in a thread.

        `arguments` is what `check` gave. What it gives is the function's own value: `taken` in the thread and
        `completed` in a task make content of it. Both raise what the tool raises.
        """
        return self._call_async(arguments, context) if self.is_async else partial(self._begin, arguments, context)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __set_name__(self, owner: type, name: str) -> None:
        # Only what was defined in the class: a function from elsewhere that has a place in it takes no `self`.
        inside = f"{owner.__qualname__}.{getattr(self.fn, '__name__', '')}"
        self._is_method = inspect.isfunction(self.fn) and self.fn.__qualname__ == inside

    def __get__(self, instance: object | None, owner: type | None = None) -> Tool:
        if instance is None or not self._is_method:
            return self
        return Tool(
            MethodType(self.fn, instance),
            name=self.name,
            description=self.description,
            timeout=self.timeout,
            parallel=self.parallel,
            needs_approval=self.needs_approval,
            schema=self._schema,
        )

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    async def _call_async(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return self._begin(arguments, context)

    def _begin(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        converted = self._convert(self._encode(arguments))
        return self.fn(**converted, **dict.fromkeys(self._context_names, context))

    def _encode(self, arguments: Mapping[str, Any]) -> str:
        try:
            return json.dumps(dict(arguments), allow_nan=False)
        except Exception as error:  # whatever an edited mapping raises when it is read
            raise ArgumentsError(f"The arguments of {self.name} are not JSON: {error_text(error)}") from error

    def _convert(self, text: str) -> dict[str, Any]:
        try:
            return self._decode(text)
        except ValidationError as error:
            problems = "; ".join(_problem(e["loc"], e["msg"]) for e in error.errors(include_url=False))
            raise ArgumentsError(f"The arguments of {self.name} do not fit: {problems}") from None
        except Exception as error:  # whatever a validator or a default of the user's raises
            raise ArgumentsError(f"The arguments of {self.name} do not fit: {error_text(error)}") from error


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    parallel: bool = False,
    needs_approval: bool = False,
    schema: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of the function below, plain or with the options of `Tool`: `@tool`, `@tool(timeout=5)`."""
    return partial(Tool, **options) if fn is None else Tool(fn, **options)


def catalogue(tools: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """Functions and tools by name, in order; `ValueError` where two have one name."""
    known: dict[str, Tool] = {}
    for item in tools:
        made = item if isinstance(item, Tool) else Tool(item)
        if made.name in known:
            raise ValueError(f"two tools are named {made.name!r}: give one of them another with Tool(fn, name=...)")
        known[made.name] = made
    return known


def groups(calls: Iterable[C], is_parallel: Callable[[C], bool]) -> list[list[C]]:
    """The calls of a turn as groups that run one after another: neighbours that are all parallel share one.

    The order is the model's, never rearranged.
    """
    found: list[list[C]] = []
    joins = False
    for call in calls:
        together = is_parallel(call)
        if together and joins:
            found[-1].append(call)
        else:
            found.append([call])
        joins = together
    return found


def _require_function(fn: object) -> None:
    if isinstance(fn, Tool):
        raise TypeError(f"{fn.name} is a Tool already: pass it as it is, or give Tool its function")
    if not callable(fn):
        raise TypeError(f"a tool is a function, and {fn!r} cannot be called")


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"a tool's name is 1 to 64 of A-Z a-z 0-9 _ -, not {name!r}: give one with name=")
    return name


def _check_options(name: str, description: object, timeout: object, parallel: object, needs_approval: object) -> None:
    if not isinstance(description, str):
        raise TypeError(f"the description of tool {name} is a string, not {description!r}")
    require_seconds(timeout, f"the timeout of tool {name}")
    require_flag(parallel, f"parallel of tool {name}")
    require_flag(needs_approval, f"needs_approval of tool {name}")


def _checked_schema(schema: object, name: str) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise TypeError(f"the schema of tool {name} is a JSON schema as a dict, not {type(schema).__name__}")
    try:
        return json.loads(json.dumps(dict(cast("Mapping[str, Any]", schema)), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the schema of tool {name} is sent to models as JSON, and is none: {error}") from None


def _is_too_deep(value: Any) -> bool:
    """Whether lists and objects stand in each other deeper than what reads and writes JSON can follow everywhere."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [part for item in level for part in _parts(item) if isinstance(part, (dict, list))]
    return bool(level)


def _parts(value: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", value).values() if isinstance(value, dict) else value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _json_kind(value: object) -> str:
    if isinstance(value, list):
        return "an array"
    return "null" if value is None else f"a {type(value).__name__}"


def _problem(path: tuple[int | str, ...], message: str) -> str:
    message = without_credentials(message)  # it may be what a validator of the user's raised
    return f"{'.'.join(str(step) for step in path)}: {message}" if path else message
