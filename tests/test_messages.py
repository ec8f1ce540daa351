"""Makers of messages, and what counts as a conversation."""

from __future__ import annotations

import pytest
from ag_ui.core import AssistantMessage, TextPart, UserMessage

from handrail.messages import as_messages, assistant, developer, system, tool_call, tool_result, user


def test_makers_give_messages_of_ag_ui_with_fresh_ids() -> None:
    """L-3: each maker gives one message of the one vocabulary; ids are fresh unless given."""
    made = [user("u"), system("s"), developer("d"), assistant("a", tool_calls=[tool_call("f")]), tool_result("c", "t")]
    assert [message.role for message in made] == ["user", "system", "developer", "assistant", "tool"]
    assert len({message.id for message in made}) == 5
    assert user("u", id="mine").id == "mine"
    assert isinstance(user([TextPart(text="x")]).content, list)
    assert tool_result("c", "t", error="broken").error == "broken"


def test_what_counts_as_a_conversation() -> None:
    """L-3: a string, a message, a sequence of them; mappings in wire form are read."""
    assert [m.content for m in as_messages("hi")] == ["hi"]
    assert as_messages(user("hi", id="u")) == [UserMessage(id="u", content="hi")]
    wire = {"id": "a", "role": "assistant", "toolCalls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    (read,) = as_messages(wire)
    assert isinstance(read, AssistantMessage)
    assert read.tool_calls is not None
    assert [m.role for m in as_messages((user("x"), wire))] == ["user", "assistant"]


@pytest.mark.parametrize("wrong", [[], ()])
def test_an_empty_conversation_is_refused(wrong: object) -> None:
    """L-3: there is nothing to run."""
    with pytest.raises(ValueError, match="empty"):
        as_messages(wrong)


@pytest.mark.parametrize("wrong", [7, None, b"bytes", [7], [["x"]], {1, 2}])
def test_what_is_no_message_is_refused(wrong: object) -> None:
    """L-3: with a sentence that says what it should be."""
    with pytest.raises(TypeError, match="message"):
        as_messages(wrong)


@pytest.mark.parametrize("wrong", [{"role": "nobody"}, {"id": "x", "role": "user"}, {}])
def test_a_mapping_that_does_not_fit_is_refused(wrong: object) -> None:
    """L-3: mappings are validated."""
    with pytest.raises(ValueError, match=r"(role|content|discriminator).*user\(\)"):
        as_messages(wrong)


def test_messages_are_copied() -> None:
    """L-4: what the caller does with theirs afterwards changes nothing."""
    given = user("before")
    (kept,) = as_messages(given)
    given.content = "after"
    assert kept.content == "before"
