"""Conversations as chat completions take them."""

from __future__ import annotations

from typing import Any

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
from handrail.backends._openai_messages import messages_out, tools_out
from handrail.messages import developer, tool_call, tool_result

PNG = DataSource(value="AAAA", mime_type="image/png")
PDF = DataSource(value="AAAA", mime_type="application/pdf")


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        (system("Be brief."), {"role": "system", "content": "Be brief."}),
        (developer("Be brief."), {"role": "developer", "content": "Be brief."}),
        (user("Hi"), {"role": "user", "content": "Hi"}),
        (user("Hi", name="ann"), {"role": "user", "content": "Hi", "name": "ann"}),
        (assistant("Hello"), {"role": "assistant", "content": "Hello"}),
        (assistant(""), {"role": "assistant", "content": ""}),
        (
            assistant(tool_calls=[tool_call("f", '{"x": 1}', id="c1"), tool_call("g", "  ", id="c2")]),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                ],
            },
        ),
        (
            assistant("Let me look.", tool_calls=[tool_call("f", "nonsense", id="c1")]),
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "nonsense"}}],
            },
        ),
        (tool_result("c1", "18C"), {"role": "tool", "tool_call_id": "c1", "content": "18C"}),
        (
            tool_result("c1", [TextPart(text="18C")]),
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "18C"}]},
        ),
    ],
)
def test_messages(message: Any, sent: dict[str, Any]) -> None:
    """L-152: each role in its form; no content beside calls without text; blank arguments as `{}`."""
    assert messages_out([message]) == [sent]


def test_what_is_not_sent() -> None:
    """L-142, L-152: reasoning and activities are left out, the order of the rest stays."""
    log: list[Any] = [
        user("Hi"),
        ReasoningMessage(id="r", content="hm"),
        ActivityMessage(id="x", activity_type="map", content={}),
        assistant("Hello"),
    ]
    assert [m["role"] for m in messages_out(log)] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (TextPart(text="t"), {"type": "text", "text": "t"}),
        (ImagePart(source=UrlSource(value="https://x/i.png")), {"image_url": {"url": "https://x/i.png"}}),
        (ImagePart(source=PNG), {"image_url": {"url": "data:image/png;base64,AAAA"}}),
        (
            AudioPart(source=DataSource(value="AAAA", mime_type="audio/mpeg")),
            {"input_audio": {"data": "AAAA", "format": "mp3"}},
        ),
        (
            AudioPart(source=DataSource(value="AAAA", mime_type="audio/wav")),
            {"input_audio": {"data": "AAAA", "format": "wav"}},
        ),
        (
            DocumentPart(source=PDF, metadata={"filename": "a.pdf"}),
            {"file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
        ),
        (DocumentPart(source=PDF), {"file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "document"}}),
        (DocumentPart(source=FileSource(value="file-1", provider="openai")), {"file": {"file_id": "file-1"}}),
    ],
)
def test_parts(part: Any, sent: dict[str, Any]) -> None:
    """L-152: text, image, audio and document parts."""
    ((message,),) = [messages_out([user([part])])]
    (content,) = message["content"]
    assert {key: value for key, value in content.items() if key != "type" or part.type == "text"} == sent


@pytest.mark.parametrize(
    "message",
    [
        user([VideoPart(source=UrlSource(value="https://x/v.mp4"))]),
        user([AudioPart(source=UrlSource(value="https://x/a.mp3"))]),
        user([AudioPart(source=DataSource(value="AAAA", mime_type="audio/flac"))]),
        user([DocumentPart(source=UrlSource(value="https://x/a.pdf"))]),
        user([DocumentPart(source=FileSource(value="x", provider="google"))]),
        tool_result("c1", [ImagePart(source=PNG)]),
    ],
)
def test_what_the_api_cannot_carry(message: Any) -> None:
    """L-152: kind unsupported, so that the next backend is asked."""
    with pytest.raises(BackendError, match="cannot carry") as raised:
        messages_out([message])
    assert raised.value.kind == "unsupported"


def test_tools() -> None:
    """L-31: name, description and JSON schema."""

    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    made = Tool(weather)
    assert tools_out([made]) == [
        {
            "type": "function",
            "function": {"name": "weather", "description": "Tell the weather.", "parameters": made.parameters},
        }
    ]
