"""What a person is asked about a tool call, and what of that which they say is an answer."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import FunctionCall, Interrupt, ResumeEntry, ToolCall

from handrail.agui import abandon, answer, approve, deny, edit
from handrail.agui._approvals import as_answers, entry_from_person, entry_of, question, refusal
from handrail.errors import ResumeError

ASKED = Interrupt(id="c1", reason="tool_call")


def call(arguments: str) -> ToolCall:
    return ToolCall(id="c1", type="function", function=FunctionCall(name="pay", arguments=arguments))


def said(entry: ResumeEntry) -> dict[str, Any]:
    return entry.model_dump(by_alias=True, exclude_unset=True)


@pytest.mark.parametrize(("text", "arguments", "shown"), [('{"n": 1}', {"n": 1}, '{"n": 1}'), (" ", {}, "{}")])
def test_a_question_says_all_that_is_needed_for_an_answer(text: str, arguments: dict[str, Any], shown: str) -> None:
    """L-121: its id is the call's, the form of the answer stands in its schema."""
    assert question(call(text), arguments).model_dump(by_alias=True) == {
        "id": "c1",
        "reason": "tool_call",
        "toolCallId": "c1",
        "message": f"May the tool pay be run with {shown}?",
        "responseSchema": {
            "type": "object",
            "properties": {
                "approved": {"type": "boolean"},
                "editedArgs": {"type": "object"},
                "reason": {"type": "string"},
            },
            "required": ["approved"],
        },
        "metadata": {"toolName": "pay", "arguments": arguments},
    }


def test_a_question_is_the_askers_own() -> None:
    """L-121: who changes it changes neither the next one nor the arguments of the call."""
    arguments = {"list": [1]}
    asked = question(call("{}"), arguments)
    assert asked.metadata is not None
    assert asked.response_schema is not None
    asked.metadata["arguments"]["list"].append(2)
    asked.response_schema["properties"].clear()
    assert arguments == {"list": [1]}
    assert question(call("{}"), {}).response_schema == question(call("{}"), arguments).response_schema != {}


def test_answers_are_found_by_their_question() -> None:
    """L-122, L-123: what the helpers return, and entries, which are copied all the way down."""
    entry = ResumeEntry(interrupt_id="c2", status="resolved", payload={"approved": True, "editedArgs": {"n": [1]}})
    answers = as_answers([approve("c1"), entry])
    entry.payload["editedArgs"]["n"].append(2)
    entry.status = "cancelled"
    assert answers["c1"] == approve("c1")
    assert said(answers["c2"]) == {  # type: ignore[arg-type]
        "interruptId": "c2",
        "status": "resolved",
        "payload": {"approved": True, "editedArgs": {"n": [1]}},
    }
    assert as_answers(()) == {}


def test_what_is_no_answer_is_misuse() -> None:
    """L-122: at once, and it says what would be one."""
    with pytest.raises(TypeError, match=r"approve, deny.*not bool"):
        as_answers([True])
    with pytest.raises(ResumeError, match="'c1'") as caught:
        as_answers([approve("c1"), deny("c2"), ResumeEntry(interrupt_id="c1", status="cancelled")])
    assert caught.value.duplicate == ("c1",)


YES: dict[str, Any] = {"interruptId": "c1", "status": "resolved", "payload": {"approved": True}}
NO: dict[str, Any] = {"interruptId": "c1", "status": "resolved", "payload": {"approved": False}}


@pytest.mark.parametrize(
    ("given", "entry"),
    [
        (True, YES),
        (False, NO),
        (approve("c1"), YES),
        (deny("c1"), NO),
        (abandon("c1"), {"interruptId": "c1", "status": "cancelled"}),
        (answer("c1", {"approved": True}), YES),
        (ResumeEntry(interrupt_id="c1", status="resolved", payload=5), YES | {"payload": 5}),
    ],
)
def test_what_a_person_answers(given: Any, entry: dict[str, Any]) -> None:
    """L-123: True, False, an answer of the helpers, an entry at its word."""
    assert said(entry_from_person(given, ASKED)) == entry


@pytest.mark.parametrize(
    "given", [None, 1, 0, "yes", [], approve("c2"), ResumeEntry(interrupt_id="c2", status="cancelled")]
)
def test_what_answers_nothing_is_a_denial(given: Any) -> None:
    """L-123: silence approves nothing, nor does a yes to another question; the reason says what came."""
    entry = said(entry_from_person(given, ASKED))
    assert type(given).__name__ in entry["payload"].pop("reason")
    assert entry == NO


def test_an_entry_is_taken_at_its_word_and_an_answer_is_shaped_by_its_question() -> None:
    """L-122"""
    entry = ResumeEntry(interrupt_id="c1", status="resolved")
    assert entry_of(entry, ASKED) is entry
    assert said(entry_of(edit("c1", {"n": 2}), question(call("{}"), {}))) == YES | {
        "payload": {"approved": True, "editedArgs": {"n": 2}}
    }


def test_a_refusal_is_a_denial_with_its_reason() -> None:
    """L-123: nothing else is in it."""
    assert said(refusal(ASKED, "too dear")) == NO | {"payload": {"approved": False, "reason": "too dear"}}
