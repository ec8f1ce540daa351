"""Conversations as pydantic-ai takes them."""

from __future__ import annotations

from typing import Any

import pydantic_ai.messages as ai
import pytest
from ag_ui.core import (
    ActivityMessage,
    AudioPart,
    DataSource,
    DocumentPart,
    FileSource,
    ImagePart,
    ReasoningMessage,
    TextPart,
    UrlSource,
    VideoPart,
)

from handrail import BackendError, Tool, assistant, system, user
from handrail.backends._pydantic_ai_messages import messages_out, opaque_of, tools_out
from handrail.messages import developer, tool_call, tool_result


def shape(messages: Any) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Kinds and contents, without what the library stamps by itself."""
    return [
        (m.kind, [(p.part_kind, p.args if p.part_kind == "tool-call" else p.content) for p in m.parts])
        for m in messages_out(messages, "openai")
    ]


def test_a_conversation() -> None:
    """L-155, L-159: requests and answers in turn, results under the name of their call."""
    log = [
        system("Be brief."),
        developer("Really."),
        user("How is Rome?"),
        assistant("Let me look.", tool_calls=[tool_call("f", '{"x": 1}', id="c1"), tool_call("g", " ", id="c2")]),
        tool_result("c1", "18C"),
        tool_result("c2", [TextPart(text="dry")]),
        user("And?"),
        assistant("Warm."),
    ]
    assert shape(log) == [
        ("request", [("system-prompt", "Be brief."), ("system-prompt", "Really."), ("user-prompt", "How is Rome?")]),
        ("response", [("text", "Let me look."), ("tool-call", '{"x": 1}'), ("tool-call", "{}")]),
        ("request", [("tool-return", "18C"), ("tool-return", ["dry"]), ("user-prompt", "And?")]),
        ("response", [("text", "Warm.")]),
    ]
    results = messages_out(log, "prov")[2].parts
    assert [(p.tool_name, p.tool_call_id) for p in results[:2]] == [("f", "c1"), ("g", "c2")]  # pyright: ignore


def test_what_is_not_sent() -> None:
    """L-142: activities, empty answers, and reasoning without a value that is the library's."""
    log: list[Any] = [
        user("Hi"),
        ActivityMessage(id="x", activity_type="map", content={}),
        ReasoningMessage(id="r", content="hm"),
        assistant("a"),
        ReasoningMessage(id="r2", content="hm", encrypted_value="somebody else's"),
        assistant("b"),
        ReasoningMessage(id="r3", content="hm", encrypted_value='[{"content": 1}]'),
        assistant(""),
        user("Hm?"),
    ]
    assert shape(log) == [
        ("request", [("user-prompt", "Hi")]),
        ("response", [("text", "a")]),
        ("response", [("text", "b")]),
        ("request", [("user-prompt", "Hm?")]),
    ]


def test_thinking_goes_back_as_it_came() -> None:
    """L-142, L-156: signature, provider and text survive; thinking without either has nothing to keep."""
    thoughts = [
        ai.ThinkingPart("first", signature="s1", provider_name="anthropic"),
        ai.ThinkingPart("", id="redacted", signature="s2", provider_name="anthropic", provider_details={"a": 1}),
    ]
    opaque = opaque_of([*thoughts, ai.TextPart("t"), ai.ThinkingPart("plain")])
    log = [user("x"), ReasoningMessage(id="r", content="first", encrypted_value=opaque), assistant("t")]
    assert messages_out(log, "prov")[1].parts == [*thoughts, ai.TextPart("t")]
    assert opaque_of([ai.ThinkingPart("plain"), ai.TextPart("t")]) is None


def test_thinking_of_an_answer_with_calls_only() -> None:
    """L-142: it stands before the calls of its turn, and of no other."""
    opaque = opaque_of([ai.ThinkingPart("hm", signature="s", provider_name="p")])
    log = [
        user("x"),
        ReasoningMessage(id="r", content="hm", encrypted_value=opaque),
        assistant(tool_calls=[tool_call("f", id="c1")]),
        tool_result("c1", "1"),
        assistant("done"),
    ]
    assert [kinds for _, kinds in shape(log)][1:] == [
        [("thinking", "hm"), ("tool-call", "{}")],
        [("tool-return", "1")],
        [("text", "done")],
    ]


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (TextPart(text="t"), "t"),
        (ImagePart(source=UrlSource(value="https://x/i.png")), ai.ImageUrl("https://x/i.png")),
        (AudioPart(source=UrlSource(value="https://x/a.mp3")), ai.AudioUrl("https://x/a.mp3")),
        (VideoPart(source=UrlSource(value="https://x/v.mp4")), ai.VideoUrl("https://x/v.mp4")),
        (DocumentPart(source=UrlSource(value="https://x/d.pdf")), ai.DocumentUrl("https://x/d.pdf")),
        (
            ImagePart(source=DataSource(value="AAAA", mime_type="image/png")),
            ai.BinaryContent(b"\0\0\0", media_type="image/png"),
        ),
        (
            DocumentPart(source=FileSource(value="f1", provider="openai", mime_type="application/pdf")),
            ai.UploadedFile("f1", "openai", media_type="application/pdf"),
        ),
        (ImagePart(source=FileSource(value="f1")), ai.UploadedFile("f1", "openai")),
    ],
)
def test_parts(part: Any, sent: Any) -> None:
    """L-155: each kind of part in the library's own."""
    ((_, [(_, content)]),) = shape([user([part])])
    assert content == [sent]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (DataSource(value="%%", mime_type="image/png"), "base64"),
        (FileSource(value="f1"), "whose source is file"),
    ],
)
def test_what_cannot_be_carried(source: Any, words: str) -> None:
    """L-155: data that is none, a file at a provider without files: for the next backend."""
    with pytest.raises(BackendError, match=words) as raised:
        messages_out([user([ImagePart(source=source)])], "prov")
    assert raised.value.kind == "unsupported"


def test_tools() -> None:
    """L-155: name, description and JSON schema."""

    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    made = Tool(weather)
    (sent,) = tools_out([made])
    assert (sent.name, sent.description, sent.parameters_json_schema) == (
        "weather",
        "Tell the weather.",
        made.parameters,
    )
