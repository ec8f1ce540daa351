"""What a question can be answered with, and what becomes of what was typed; and the commands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from ag_ui.core import Interrupt
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apps.chatting import APPROVAL

from handrail.agui._interrupts import entries_for
from handrail.apps.chat._commands import COMMANDS, command_in, help_text
from handrail.apps.chat._form import Choice, arguments_of, choices, decided, fields
from handrail.errors import ResumeError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["red", 7, None]},
        "count": {"type": "integer", "minimum": 1},
        "sure": {"type": "boolean", "title": "Are you sure?"},
        "note": {"type": "string"},
        "more": {"type": "array"},
    },
    "required": ["colour", "count"],
}
SCHEMAS: list[Any] = [
    None,
    APPROVAL,
    FORM,
    {"type": "boolean"},
    {"type": "string"},
    {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
    {"type": "object", "properties": {"approved": {"type": "boolean"}, "n": {"type": "integer"}}, "required": ["n"]},
    {"enum": ["a", "b"]},
    {},
]


def asked(schema: Any = None, **more: Any) -> Interrupt:
    return Interrupt(id="i", reason="r", response_schema=schema, **more)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, ("approve", "deny", "answer", "abandon")),
        (APPROVAL, ("approve", "deny", "edit", "abandon")),
        (FORM, ("answer", "abandon")),
        ({"type": "boolean"}, ("approve", "deny", "abandon")),
        ({"type": "string"}, ("answer", "abandon")),
    ],
)
def test_only_what_can_be_expressed_is_offered(schema: Any, expected: tuple[Choice, ...]) -> None:
    """S-89, S-90."""
    assert choices(asked(schema), NOW) == expected


def test_an_expired_question_can_only_be_given_up() -> None:
    """S-86."""
    assert choices(asked(APPROVAL, expires_at="2025-12-31T00:00:00Z"), NOW) == ("abandon",)


def test_a_legacy_question_cannot_be_given_up_on_the_wire() -> None:
    """S-107."""
    assert "abandon" not in choices(asked(metadata={"legacy": True, "value": "?"}), NOW)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (["red", "3", "", "", ""], {"colour": "red", "count": 3}),
        (["7", "3", "true", "hi", "[1]"], {"colour": 7, "count": 3, "sure": True, "note": "hi", "more": [1]}),
        (["null", "1", "false", "", ""], {"colour": None, "count": 1, "sure": False}),
    ],
)
def test_a_form_becomes_the_value_it_stands_for(typed: list[str], value: Any) -> None:
    assert decided("answer", asked(FORM), typed).value == value


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        (["", "3", "", "", ""], "colour: nothing was filled in"),
        (["red", "0", "", "", ""], "count: less than 1"),
        (["red", "many", "", "", ""], "count: not JSON"),
        (["red", "1.5", "", "", ""], "count: expected integer"),
        (["red", "1", "", "", "{"], "more (may stay empty), as JSON: not JSON"),
    ],
)
def test_what_does_not_fit_is_told_by_name(typed: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match="^" + problem.replace("(", r"\(").replace(")", r"\)")):
        decided("answer", asked(FORM), typed)


@pytest.mark.parametrize("typed", ["", "[]", "3", "{", '"{}"'])
def test_edited_arguments_are_an_object(typed: str) -> None:
    with pytest.raises(ValueError, match="arguments"):
        decided("edit", asked(APPROVAL), [typed])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.sampled_from(SCHEMAS), st.data())
def test_what_the_form_accepts_the_session_accepts(schema: Any, data: st.DataObject) -> None:
    """S-91: whatever was typed, it is refused in the form or by nobody."""
    interrupt = asked(schema)
    choice = data.draw(st.sampled_from(choices(interrupt, NOW)))
    texts = st.sampled_from(["", "1", "-1", "true", "null", "{}", "[", "red", '{"a": 1}', "a\x1b"])
    typed = [
        data.draw(st.sampled_from(("", *field.options)) if field.kind == "choice" else texts)
        for field in fields(choice, interrupt)
    ]
    try:
        answer = decided(choice, interrupt, typed)
    except ResumeError:
        raise
    except ValueError:
        return
    assert len(entries_for([answer], [interrupt], now=NOW)) == 1


def test_the_arguments_to_edit_are_those_of_the_call() -> None:
    call = asked(APPROVAL, tool_call_id="c1")
    assert arguments_of(call, {"c1": '{"a":1}'}) == '{\n  "a": 1\n}'
    assert arguments_of(call, {"c1": '{"a":'}) == '{"a":'
    assert arguments_of(asked(metadata={"arguments": {"b": 2}}), {}) == '{\n  "b": 2\n}'


@pytest.mark.parametrize("text", ["hello", "//etc is a folder", "/save\nis not a command", "3/4"])
def test_what_is_no_command_is_a_message(text: str) -> None:
    assert command_in(text) is None


@pytest.mark.parametrize("text", ["/", "/nothing", "/save", "/retry now", "/SAVE x"])
def test_a_wrong_command_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(There is no command|/)"):
        command_in(text)


def test_every_command_is_in_the_help_and_can_be_typed() -> None:
    for command in COMMANDS:
        assert f"/{command.name}" in help_text()
        assert command_in(f"/{command.name} {command.argument.strip('[]')}".strip()) is not None
