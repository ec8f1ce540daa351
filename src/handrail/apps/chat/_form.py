"""What a question of an agent can be answered with, and how what a person typed becomes an answer.

Pure. The interrupt's response schema decides which choices there are; a choice is offered only where its answer can be
expressed, so that nobody fills in what would be refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from ag_ui.core import Interrupt

from handrail.agui._interrupts import Answer, abandon, answer, approve, deny, edit, entry_for, is_expired
from handrail.agui._schema import type_names, violations
from handrail.apps._visible import clipped, one_line
from handrail.errors import ResumeError
from handrail.transcript import ToolCallPart, Transcript

__all__ = ["Choice", "Field", "arguments_of", "arguments_on_screen", "choices", "decided", "fields"]

Choice = Literal["approve", "deny", "edit", "answer", "abandon"]

_APPROVAL_FIELDS = {"approved", "reason", "editedArgs"}


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to fill in. `name` is "" where the answer is this one value; `options` are the texts to choose from."""

    name: str
    label: str
    kind: Literal["text", "number", "json", "choice"]
    options: tuple[str, ...] = ()
    required: bool = True


def choices(interrupt: Interrupt, now: datetime) -> tuple[Choice, ...]:
    """The ways to answer this question now."""
    if is_expired(interrupt, now):
        return ("abandon",)
    possible: dict[Choice, bool] = {
        "approve": _fits(interrupt, approve(interrupt)),
        "deny": _fits(interrupt, deny(interrupt)),
        "edit": _is_expressible(interrupt, edit(interrupt, {})),
        "answer": _asks_for_more(interrupt.response_schema),
        "abandon": not (interrupt.metadata or {}).get("legacy"),
    }
    return tuple(choice for choice, is_possible in possible.items() if is_possible)


def _is_expressible(interrupt: Interrupt, given: Answer) -> bool:
    try:
        entry_for(given, interrupt)
    except ResumeError:
        return False
    return True


def _fits(interrupt: Interrupt, given: Answer) -> bool:
    try:
        payload = entry_for(given, interrupt).payload
    except ResumeError:
        return False
    return next(violations(payload, interrupt.response_schema), None) is None


def _asks_for_more(schema: Mapping[str, Any] | None) -> bool:
    """Whether there is more to say than yes or no."""
    if schema is None:
        return True
    if type_names(schema) == ("boolean",):
        return False
    names = set(_object(schema.get("properties")))
    return not names or not names <= _APPROVAL_FIELDS


def fields(choice: Choice, interrupt: Interrupt) -> tuple[Field, ...]:
    """What there is to fill in for this choice."""
    match choice:
        case "deny":
            return (Field("", "reason (may stay empty)", "text", required=False),)
        case "edit":
            return (Field("", "arguments, as a JSON object", "json"),)
        case "answer":
            return _answer_fields(interrupt.response_schema)
        case _:
            return ()


def _answer_fields(schema: Mapping[str, Any] | None) -> tuple[Field, ...]:
    if schema is None:
        return (Field("", "answer", "text"),)
    properties = _object(schema.get("properties"))
    if not properties:
        return (_field("", schema, True),)
    required = schema.get("required")
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    return tuple(_field(name, rules, name in needed) for name, rules in properties.items())


def _field(name: str, rules: Any, required: bool) -> Field:
    schema = _object(rules)
    title, options = schema.get("title"), schema.get("enum")
    label = one_line(clipped(title if isinstance(title, str) else name or "answer", 60))
    if not required:
        label += " (may stay empty)"
    types = type_names(schema)
    if isinstance(options, list):
        return Field(name, label, "choice", tuple(_shown(option) for option in cast("list[Any]", options)), required)
    if types == ("boolean",):
        return Field(name, label, "choice", ("true", "false"), required)
    if types == ("string",):
        return Field(name, label, "text", (), required)
    if types in (("integer",), ("number",)):
        return Field(name, label, "number", (), required)
    return Field(name, f"{label}, as JSON", "json", (), required)


def decided(choice: Choice, interrupt: Interrupt, typed: Sequence[str]) -> Answer:
    """The answer that a choice is, with what was typed into its `fields`, in their order.

    Raises `ValueError` with what is wrong with what was typed.
    """
    if choice == "answer":
        return answer(interrupt, _value(interrupt, typed))
    if choice == "edit":
        return edit(interrupt, _arguments(typed[0]))
    if choice == "deny":
        return deny(interrupt, typed[0].strip() or None)
    return _PLAIN[choice](interrupt)


_PLAIN: dict[str, Callable[[Interrupt], Answer]] = {"approve": approve, "abandon": abandon}


def _arguments(text: str) -> Mapping[str, Any]:
    found = _parsed("the arguments", text)
    if not isinstance(found, dict):
        raise ValueError("the arguments must be a JSON object, such as {}")
    return cast("dict[str, Any]", found)


def _value(interrupt: Interrupt, typed: Sequence[str]) -> Any:
    schema = interrupt.response_schema
    asked = _answer_fields(schema)
    properties = _object(schema.get("properties")) if schema else {}
    values: dict[str, Any] = {}
    for field, text in zip(asked, typed, strict=True):
        rules = properties.get(field.name, schema)
        if text.strip() or (field.required and field.kind == "text"):
            values[field.name] = _one_value(field, rules, text)
        elif field.required:
            raise ValueError(f"{field.label}: nothing was filled in")
    value = values.get("") if len(asked) == 1 and asked[0].name == "" else values
    for path, problem in violations(value, schema):
        raise ValueError(f"{path.lstrip('/') or 'the answer'}: {one_line(clipped(problem, 200))}")
    return value


def _one_value(field: Field, rules: Any, text: str) -> Any:
    match field.kind:
        case "text":
            return text
        case "choice":
            options = _object(rules).get("enum") or [True, False]
            return options[field.options.index(text)]
        case _:
            return _parsed(field.label, text)


def _parsed(what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what}: not JSON: {error}") from None


def arguments_on_screen(transcript: Transcript) -> Mapping[str, str]:
    """The arguments of all calls, by call id."""
    parts = (part for message in transcript.messages for part in message.parts)
    return {part.tool_call_id: part.arguments for part in parts if isinstance(part, ToolCallPart)}


def arguments_of(interrupt: Interrupt, calls: Mapping[str, str]) -> str:
    """The arguments that the question is about, as JSON to be edited; `calls` has those on screen by call id."""
    text = calls.get(interrupt.tool_call_id or "") or ""
    found: Any = (interrupt.metadata or {}).get("arguments")
    if found is None:
        try:
            found = json.loads(text or "{}")
        except (ValueError, RecursionError):
            return text
    return json.dumps(found, ensure_ascii=False, indent=2)


def _shown(option: Any) -> str:
    return one_line(option if isinstance(option, str) else json.dumps(option, ensure_ascii=False))


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
