"""How what a tool gave becomes what the model sees."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeGuard, cast, get_args
from uuid import UUID

from ag_ui.core import ContentPart
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from handrail.errors import words_of
from handrail.events import ToolContent
from handrail.tools._credentials import without_credentials

__all__ = ["INERT", "as_content", "as_data", "error_message", "error_text"]

_PARTS: tuple[type, ...] = get_args(get_args(ContentPart)[0])
_MAX_ERROR_TEXT = 4_000

INERT = frozenset[type]({type(None), bool, int, float, str, *_PARTS})
"""The types whose values are read without running any code of a tool's."""


def as_content(value: Any) -> ToolContent:
    """A tool's value as the content of a tool message: text as it is, AG-UI parts as parts, the rest as JSON text.

    Raises `ValueError` for what JSON cannot express, and for a value whose own code raises when it is read. A number
    that is none (NaN, infinity) is written as null.
    """
    try:
        return _content(value)
    except Exception as error:  # a value may run code of its own, and that may raise anything
        said = f"a value of type {type(value).__name__} cannot be a tool's result: {error_text(error)}"
        raise ValueError(said) from error


def as_data(data: object) -> dict[str, Any]:
    """What a tool logs, as a copy in plain JSON data: a number that is none is null, what JSON does not know its text.

    Raises `TypeError` for what is no mapping, and `ValueError` for one that cannot be read.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"log() takes a string or a dict, not {type(data).__name__}")
    try:
        found = dict(cast("Mapping[str, Any]", data))
        return to_jsonable_python(found, bytes_mode="base64", inf_nan_mode="null", serialize_unknown=True)
    except Exception as error:  # a value may run code of its own, and that may raise anything
        raise ValueError(f"log() cannot read its data: {error_text(error)}") from error


def error_text(error: BaseException) -> str:
    """An exception as the result of its call: "ClassName: message", without credentials, cut to 4,000 characters."""
    if isinstance(error.__cause__, StopIteration) and str(error) == "coroutine raised StopIteration":
        error = error.__cause__  # it cannot pass through a coroutine itself
    name, message = type(error).__name__, error_message(error)
    return (f"{name}: {message}" if message else name)[:_MAX_ERROR_TEXT]


def error_message(error: BaseException) -> str:
    """The text of an exception, "" if it has none, without what looks like a credential, cut to 4,000 characters."""
    return without_credentials(words_of(error))[:_MAX_ERROR_TEXT]


def _content(value: Any) -> ToolContent:
    if value is None:
        return ""
    if isinstance(value, _PARTS):
        return [value.model_copy(deep=True)]
    if _is_parts(value):
        return [part.model_copy(deep=True) for part in value]
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _is_parts(value: Any) -> TypeGuard[list[ContentPart]]:
    return (
        bool(value) and isinstance(value, list) and all(isinstance(part, _PARTS) for part in cast("list[Any]", value))
    )


def _plain(value: Any) -> Any:
    """`value` as JSON data; raises `TypeError` for a type that is none of those a tool may give."""
    match value:
        case Enum():
            return _plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case BaseModel():
            return _plain(value.model_dump(mode="json", by_alias=True))
        case Mapping():
            return {_plain(key): _plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in cast("Iterable[Any]", value)]
        case datetime() | date() | time() | timedelta() | Decimal() | UUID():
            return to_jsonable_python(value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            raise TypeError(f"{type(value).__name__} is none of the types a tool may give")
