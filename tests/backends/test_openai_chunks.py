"""Chunks as servers send them, and as they should not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import BackendError, FinishDelta, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageDelta
from handrail.backends._openai_chunks import deltas_of


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more


def calls(*given: Any) -> dict[str, Any]:
    return chunk({"tool_calls": list(given)})


@pytest.mark.parametrize(
    ("sent", "deltas"),
    [
        (chunk({"content": "a"}), [TextDelta("a")]),
        (chunk({"refusal": "I must not."}), [TextDelta("I must not.")]),
        (chunk({"reasoning_content": "hm"}), [ReasoningDelta("hm")]),
        (chunk({"reasoning": "hm"}), [ReasoningDelta("hm")]),
        (chunk({"reasoning": "hm", "reasoning_content": "hm", "content": "a"}), [ReasoningDelta("hm"), TextDelta("a")]),
        (chunk({"role": "assistant", "content": ""}), []),
        (chunk({"role": "assistant", "content": None, "tool_calls": None}), []),
        (chunk(None), []),
        (chunk({}, "stop"), [FinishDelta("stop", "m")]),
        (chunk(None, "length"), [FinishDelta("length", "m")]),
        (chunk({"content": "a"}, "tool_calls"), [TextDelta("a"), FinishDelta("tool-calls", "m")]),
        (chunk({}, "function_call"), [FinishDelta("tool-calls", "m")]),
        (
            chunk({"function_call": {"name": "f", "arguments": "{"}}, "function_call"),
            [ToolCallDelta(0, None, "f", "{"), FinishDelta("tool-calls", "m")],
        ),
        (chunk({"function_call": {"arguments": "}"}}), [ToolCallDelta(0, arguments="}")]),
        (chunk({}, "content_filter"), [FinishDelta("content-filter", "m")]),
        (chunk({}, "eos"), [FinishDelta("other", "m")]),
        (chunk({}, ""), []),
        (
            calls({"index": 0, "id": "A", "type": "function", "function": {"name": "f", "arguments": ""}}),
            [ToolCallDelta(0, "A", "f", "")],
        ),
        (calls({"index": 0, "function": {"arguments": '{"a'}}), [ToolCallDelta(0, None, None, '{"a')]),
        (calls({"index": None, "id": "A", "function": None}), [ToolCallDelta(None, "A")]),
        (calls({"id": "", "function": {"name": "", "arguments": "}"}}), [ToolCallDelta(arguments="}")]),
        (
            calls({"id": "A", "function": {"name": "f", "arguments": {"a": 1}}}),
            [ToolCallDelta(None, "A", "f", '{"a": 1}')],
        ),
        (calls({"index": 1}, {"index": 0}), [ToolCallDelta(1), ToolCallDelta(0)]),
        ({"choices": [], "usage": None}, []),
        ({"choices": None}, []),
        ({}, []),
    ],
)
def test_deltas(sent: dict[str, Any], deltas: list[Any]) -> None:
    """L-153: what is there is taken; no choices, null fields and odd types are no error."""
    assert list(deltas_of(sent)) == deltas


def test_usage() -> None:
    """L-153: the usage chunk after the finish has no choices; what is not a number is not reported."""
    sent = {
        "id": "g1",
        "provider": "P",
        "choices": [],
        "usage": {
            "prompt_tokens": 50,
            "completion_tokens": 11.0,
            "total_tokens": "61",
            "prompt_tokens_details": {"cached_tokens": 7},
            "cost": 0.25,
        },
    }
    assert list(deltas_of(sent)) == [UsageDelta(Usage(50, 11, None, 7, 0.25, "P", "g1"))]
    assert list(deltas_of({"usage": {"prompt_tokens": 0}})) == [UsageDelta(Usage(prompt_tokens=0))]


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"message": "m", "code": "context_length_exceeded"}, "overflow", None),
        ({"message": "m", "code": "rate_limit_exceeded"}, "http", 429),
        ({"message": "m", "type": "server_error"}, "http", 500),
        ({"message": "m", "type": "invalid_request_error", "code": None}, "http", 400),
        ({"message": "m", "code": 502}, "http", 502),
        ({"message": "m", "code": "who knows", "type": "nobody"}, "other", None),
        ("m", "other", None),
    ],
)
def test_an_error_inside_the_stream(error: Any, kind: str, status: int | None) -> None:
    """L-154: by its code and type."""
    with pytest.raises(BackendError, match="m") as raised:
        list(deltas_of({"error": error}))
    assert (raised.value.kind, raised.value.status) == (kind, status)


FIELDS = [
    *("choices", "delta", "content", "reasoning", "tool_calls", "index", "id", "function", "name", "arguments"),
    *("finish_reason", "usage", "prompt_tokens", "total_tokens", "cost", "prompt_tokens_details", "cached_tokens"),
]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["choices", "usage", "model", "id"]), anything))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_no_chunk_breaks_the_reader(sent: dict[str, Any]) -> None:
    """L-153: whatever a server sends, it becomes deltas or nothing."""
    for delta in deltas_of(sent):
        assert isinstance(delta, (TextDelta, ReasoningDelta, ToolCallDelta, FinishDelta, UsageDelta))
