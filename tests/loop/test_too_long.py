"""What providers say when a request does not fit, and what sounds like it and is something else."""

from __future__ import annotations

import pytest

from handrail import BackendError, RetryPolicy
from handrail.loop._attempts import classify


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "Your input exceeds the context window of this model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input is too long for requested model.",
        "request (33056 tokens) exceeds the available context size (32768 tokens), try increasing it",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576).",
        "prompt token count of 140000 exceeds the limit of 128000",
        "Prompt contains 65673 tokens, too large for model with 32768 maximum context length",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        "too many tokens: the total number of tokens in the prompt",
    ],
)
def test_the_words_of_providers(words: str) -> None:
    """L-40: a 400 whose text names the context length, too many tokens or a too long prompt is a refusal on size."""
    failure = classify(BackendError(words, "http", 400), RetryPolicy())
    assert (failure.error_class, failure.size_refusal) == ("overflow", True)
    assert classify(BackendError(words, "http", 403), RetryPolicy()).error_class == "http"


@pytest.mark.parametrize(
    "words",
    [
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "Invalid schema for function 'f': missing context",
        "Unsupported value: 'temperature'",
        "The image is too large: 20 MB is the limit",
    ],
)
def test_other_complaints(words: str) -> None:
    """L-40: nothing else is one."""
    assert classify(BackendError(words, "http", 400), RetryPolicy()).error_class == "http"
