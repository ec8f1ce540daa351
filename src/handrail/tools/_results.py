"""How what a call gave comes to its end and becomes content, and on which thread.

Reading a value can run code of the tool's: an iterator's, a mapping's, a model's. That belongs to the call, so it is
done inside it, and never on the event loop, which it could block:

| the value                                       | where it is read                                            |
|-------------------------------------------------|-------------------------------------------------------------|
| an awaitable, an async iterator                 | awaited on the loop; then what it gave, as below            |
| of a sync tool                                  | in the thread of the call (`taken`)                         |
| small plain data, text, AG-UI parts             | where it is: there is no code to run (`completed`)          |
| any other                                       | in a thread of its own (`completed`)                        |

Nobody waits for a call that was given up, so an iterator is left at its next item then.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import chain
from typing import Any, TypeAlias, cast

from handrail.events import ToolContent
from handrail.tools._values import INERT, as_content

__all__ = ["InThread", "awaited", "completed", "dropped", "taken"]

_MOST_ITEMS = 1_000


InThread: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread and gives what it returns, or raises what it raises."""


def taken(value: Any, is_given_up: Callable[[], bool]) -> Any:
    """What a sync tool gave, in its thread: its content, but as it is what has to be awaited first."""
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        if is_given_up():
            dropped(value)
        return cast("Any", value)
    if isinstance(value, Iterator):
        value = list(_items(cast("Iterator[Any]", value), is_given_up))
    return as_content(value)


async def completed(value: Any, in_thread: InThread, is_given_up: Callable[[], bool]) -> ToolContent:
    """What a call gave, on the event loop: awaited, read to its end, as content. Raises what the value raises."""
    value = await awaited(value)
    if isinstance(value, AsyncIterator):
        value = [item async for item in cast("AsyncIterator[Any]", value)]
    return as_content(value) if _is_small_data(value) else await in_thread(lambda: taken(value, is_given_up))


async def awaited(value: Any) -> Any:
    """The value behind an awaitable, however often."""
    while inspect.isawaitable(value):
        value = await value
    return value


def dropped(value: Any) -> None:
    """Close what nobody will read any more; a coroutine would complain that it was never awaited."""
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        value.close()


def _items(iterator: Iterator[Any], is_given_up: Callable[[], bool]) -> Iterator[Any]:
    for item in iterator:
        if is_given_up():
            dropped(iterator)
            raise RuntimeError("the call was given up while its result was read")
        yield item


def _is_small_data(value: Any) -> bool:
    """Whether a value is made of the plain types alone, and of few enough to be read at once."""
    found: list[Any] = [value]
    for item in found:  # which grows meanwhile
        if type(item) in INERT:
            continue
        if type(item) not in (dict, list, tuple) or len(found) + len(item) > _MOST_ITEMS:
            return False
        found += chain(*cast("dict[Any, Any]", item).items()) if type(item) is dict else item
    return True
