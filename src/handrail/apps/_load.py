"""Finding a person's own objects by the name they type: `module` or `module:attribute`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

from handrail.errors import UsageError
from handrail.tools import Tool
from handrail.tools._settings import require_callable

__all__ = ["is_loop", "load", "load_loop", "load_tools"]

AnyTool: TypeAlias = Tool | Callable[..., Any]


def load(name: str) -> Any:
    """The module called `name`, or with `module:attribute` what it holds under that name.

    Modules are looked for in the current folder first, as `python -m` does. Raises `UsageError` in one or two lines
    for a module that is not there or does not import (its own exception is the cause), and for a missing attribute.
    """
    module_name, colon, attribute = name.partition(":")
    if not module_name:
        raise UsageError(f"{name!r} names no module; it looks like MODULE or MODULE:NAME.")
    if (colon and not attribute) or attribute.startswith("/"):
        raise UsageError(f"{name!r} names nothing in a module; it looks like MODULE or MODULE:NAME.")
    if module_name.endswith(".py") or "/" in module_name:
        raise UsageError(f"{module_name!r} is a file; give the name of the module, {_as_module(module_name)!r}.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as failure:  # a module may raise anything, and nothing of ours runs in there
        if isinstance(failure, ModuleNotFoundError) and f"{module_name}.".startswith(f"{failure.name}."):
            raise UsageError(
                f"There is no module {failure.name!r}, neither in the current folder nor among what is installed."
                f"{_colon_meant(module_name)}"
            ) from failure
        first_line = (str(failure).splitlines() or [""])[0]
        raise UsageError(
            f"The module {module_name!r} does not import: {type(failure).__name__}: {first_line}\n"
            f"Mend it, or see the traceback with --debug."
        ) from failure
    if attribute and not hasattr(module, attribute):
        raise UsageError(f"The module {module_name!r} has no {attribute!r}.{_like(attribute, module)}")
    return getattr(module, attribute) if attribute else module


def load_loop(name: str, is_other: Callable[[Any], bool], other: str) -> Any:
    """What a person wants to be run: `module:attribute`, or of a module what it calls `loop`.

    It is a loop, or a function of an input and a principal that returns one, or what `is_other` takes, which is called
    `other`. Raises `UsageError` for anything else.
    """
    found = load(name)
    if ":" not in name:
        if not hasattr(found, "loop"):
            raise UsageError(f"The module {name!r} has no `loop`; name what is meant, as in {name}:NAME.")
        found = found.loop
    if is_other(found) or is_loop(found) or _makes_loops(found):
        return found
    raise UsageError(
        f"{name!r} is of class {type(found).__name__}; it takes a Loop, a function of an input and a principal that "
        f"returns one, or {other}."
    )


def is_loop(found: object) -> bool:
    """Whether it can be run as a loop is."""
    return callable(getattr(found, "run", None))


def _makes_loops(found: object) -> bool:
    try:
        require_callable(found, "it", "a function", takes=2)
    except TypeError:
        return False
    return found is not None and not isinstance(found, Tool)


def load_tools(name: str) -> Sequence[AnyTool]:
    """The tools a person named: of a module its list `tools`, or everything in it that was made by `@tool`.

    With `module:attribute`, that tool, function or list of them. Raises `UsageError` where there is none.
    """
    found: Any = load(name)
    if ":" not in name:
        named: dict[str, Any] = found.__dict__
        found = named.get("tools", [value for value in named.values() if isinstance(value, Tool)])
    listed = cast("Sequence[AnyTool]", found if isinstance(found, (list, tuple)) else [found])
    if not listed:
        raise UsageError(
            f"There are no tools in {name!r}. Decorate functions with @handrail.tool, or list them in `tools`."
        )
    return listed


def _like(attribute: str, module: object) -> str:
    """What to say of a name that a module does not have: the one it has instead, "" where none is like it."""
    found = get_close_matches(attribute, [name for name in dir(module) if not name.startswith("_")], n=1)
    return f" It has {found[0]!r}." if found else ""


def _colon_meant(module_name: str) -> str:
    """What to say of a module that is not there, where its last part is something in the module before it."""
    within, _, attribute = module_name.rpartition(".")
    return f" It has a colon: {within}:{attribute}." if hasattr(sys.modules.get(within), attribute) else ""


def _as_module(path: str) -> str:
    return path.removeprefix("./").removesuffix(".py").strip("/").replace("/", ".")
