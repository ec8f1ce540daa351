"""Instances of the models of `ag_ui.core` from values that have been judged, at a fifth of the cost of judging again.

What pydantic's own `model_construct` and `model_copy` make is made here directly. Only for values that came through the
shapes: nothing is checked, converted or copied.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

__all__ = ["changed", "instance", "made"]

M = TypeVar("M", bound=BaseModel)

_new = object.__new__
# The four slots of every model themselves: `object.__setattr__` looks each up by its name, at four times the cost.
_put_values, _put_given, _put_further, _put_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def instance(model: type[M], values: dict[str, Any], given: set[str], further: dict[str, Any]) -> M:
    """An instance that holds `values`, one for each field; `given` were set, `further` are keys beside the fields."""
    made = _new(model)
    _put_values(made, values)
    _put_given(made, given)
    _put_further(made, further)
    _put_private(made, None)
    return made


def made(model: type[M], **fields: Any) -> M:
    """An instance of the fields that have a value; None leaves one out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return instance(model, _absent(model) | given, set(given), {})


def changed(message: M, fields: dict[str, Any]) -> M:
    """A copy with other values in some fields; it shares the rest."""
    given = message.__pydantic_fields_set__ | fields.keys()
    return instance(type(message), message.__dict__ | fields, given, message.__pydantic_extra__ or {})


@cache
def _absent(model: type[BaseModel]) -> dict[str, Any]:
    return {name: field.get_default() for name, field in model.model_fields.items()}
