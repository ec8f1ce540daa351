"""The adapter over pydantic-ai: its models for tests, on every event loop; and how it is made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pydantic_ai.exceptions as errors
import pydantic_ai.messages as ai
import pytest
from ag_ui.core import ReasoningMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.settings import ModelSettings
from tests.backends.kit import play, said, weather
from tests.backends.pydantic_models import saying

from handrail import (
    BackendRequest,
    FinishDelta,
    ReasoningDelta,
    TextDelta,
    Tool,
    ToolCallDelta,
    UsageDelta,
    assistant,
    system,
    user,
)
from handrail.backends.pydantic_ai import PydanticAIBackend
from handrail.loop import Backend
from handrail.messages import tool_call, tool_result

# The library's own models for tests


async def test_text() -> None:
    """L-156, L-157: text as it comes; a complete answer without a reason is complete, and the reason is left out."""
    got = await play(saying("It is ", "warm."))
    assert got[:2] == [TextDelta("It is "), TextDelta("warm.")]
    assert [type(d) for d in got[2:]] == [UsageDelta, FinishDelta]
    assert got[-1] == FinishDelta(None, "fake")


async def test_thinking() -> None:
    """L-156: thinking is reasoning; signature and provider come as an opaque value that can go back."""
    seen: list[Any] = []
    thinking = [{0: DeltaThinkingPart(content="First ")}, {0: DeltaThinkingPart(content="think.", signature="s1")}]
    got = await play(saying(*thinking, "Then speak."))
    reasoning = [d for d in got if isinstance(d, ReasoningDelta)]
    assert [d.text for d in reasoning] == ["First ", "think.", ""]
    opaque = reasoning[-1].opaque
    assert opaque is not None
    assert said(got) == "Then speak."

    log = [
        user("x"),
        ReasoningMessage(id="r", content="First think.", encrypted_value=opaque),
        assistant("Then speak."),
    ]
    await play(saying("ok", seen=seen), BackendRequest(messages=[*log, user("y")]))
    ((messages, _),) = seen
    assert messages[1].parts[0] == ai.ThinkingPart("First think.", signature="s1", provider_name="function")


async def test_calls_come_from_the_finished_parts() -> None:
    """L-156: joined by the library, in order, behind the text."""
    got = await play(
        saying(
            {0: DeltaToolCall(name="f", json_args='{"x"', tool_call_id="c1")},
            {1: DeltaToolCall(name="g", json_args="{}", tool_call_id="c2")},
            {0: DeltaToolCall(json_args=": 1}")},
        )
    )
    assert [d for d in got if isinstance(d, ToolCallDelta)] == [
        ToolCallDelta(0, "c1", "f", '{"x": 1}'),
        ToolCallDelta(1, "c2", "g", "{}"),
    ]
    assert got[-1] == FinishDelta(None, "fake")


async def test_the_library_s_own_test_model() -> None:
    """L-155: tools are seen, called, and answered."""
    backend = PydanticAIBackend(TestModel())
    got = await play(backend, BackendRequest(messages=[user("x")], tools=[Tool(weather)]))
    (call,) = [d for d in got if isinstance(d, ToolCallDelta)]
    assert (call.name, call.arguments) == ("weather", '{"city": "a"}')
    log = [
        user("x"),
        assistant(tool_calls=[tool_call("weather", '{"city": "a"}', id="c1")]),
        tool_result("c1", "warm"),
    ]
    got = await play(backend, BackendRequest(messages=log, tools=[Tool(weather)]))
    assert said(got) == '{"weather":"warm"}'


async def test_what_the_model_is_given() -> None:
    """L-155: messages, tools and settings; `max_tokens` in the settings, retries off."""
    seen: list[Any] = []

    async def stream(messages: list[ai.ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        seen.append((messages, info))
        yield "ok"

    backend = PydanticAIBackend(
        FunctionModel(stream_function=stream), max_tokens=50, settings=ModelSettings(temperature=0.5)
    )
    await play(backend, BackendRequest(messages=[system("Be brief."), user("x")], tools=[Tool(weather)]))
    ((messages, info),) = seen
    assert [p.part_kind for p in messages[0].parts] == ["system-prompt", "user-prompt"]
    assert [t.name for t in info.function_tools] == ["weather"]
    assert info.model_settings == {"temperature": 0.5, "max_tokens": 50, "max_retries": 0}
    assert (backend.max_tokens, backend.model) == (50, "function::stream")


async def test_max_tokens_may_stand_in_the_settings() -> None:
    """L-30: the loop has to know the cap, wherever it was given."""
    assert PydanticAIBackend(TestModel(), settings=ModelSettings(max_tokens=7)).max_tokens == 7
    assert PydanticAIBackend(TestModel(settings=ModelSettings(max_tokens=8))).max_tokens == 8
    assert PydanticAIBackend(TestModel()).max_tokens is None


# Making one


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: PydanticAIBackend("nobody:nothing"), errors.UserError, "Unknown model"),
        (lambda: PydanticAIBackend(TestModel(), max_tokens=0), ValueError, "from 1"),
    ],
)
def test_misuse_is_said_when_it_is_made(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    """L-2: at once, with what is wrong."""
    with pytest.raises(error, match=words):
        make()


def test_it_is_a_backend() -> None:
    """L-30, L-155: by model or by name."""
    backend = PydanticAIBackend("test")
    assert isinstance(backend, Backend)
    assert (backend.model, repr(backend)) == ("test", "<PydanticAIBackend test>")


def test_without_the_library() -> None:
    """L-155: importing handrail does not import it, and the import error says what to install."""
    program = """
import sys
import handrail, handrail.loop, handrail.tools
assert "pydantic_ai" not in sys.modules
sys.modules["pydantic_ai"] = None
try:
    import handrail.backends.pydantic_ai
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    assert done.stdout == 'PydanticAIBackend stands on pydantic-ai: pip install "handrail[pydantic-ai]"\n'
