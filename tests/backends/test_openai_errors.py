"""What a provider says when it fails, in the forms that servers give it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.backends.kit import KEY
from tests.backends.openai_streams import answering, failing, http

from handrail import BackendError, Loop, RetryPolicy
from handrail.backends._openai_chunks import deltas_of
from handrail.backends._openai_errors import pause_asked_for, words_of
from handrail.backends.openai import OpenAIBackend


def answered(status: int, body: Any, key: str | Callable[[], Awaitable[str]] = KEY) -> OpenAIBackend:
    """A backend whose server answers with this body: bytes as they are, anything else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(_: Any) -> Any:
        return http.Response(status, content=content)

    return answering(answer, key=key)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:50:07 GMT"}, 30.0),
        ({"retry-after": "Sun, 06 Nov 1994 09:50:07 +0100"}, 30.0),
        ({"retry-after": "Sunday, 06-Nov-94 08:50:07 GMT"}, 30.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:00 GMT"}, None),
        ({"retry-after": "Sun, 99 Nov 9999999999 08:49:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_the_pause_is_found_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    """L-154: in seconds, whatever HTTP and the providers write; a moment that is past asks for nothing."""
    assert pause_asked_for(headers, 784_111_777.0) == seconds


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "no"}, "no"),
        ({"error": {"message": "no"}}, "no"),
        ([{"error": {"message": "no"}}], "no"),
        ({"code": "Client error", "error": "no"}, "no"),
        ({"detail": "no"}, "no"),
        ({"object": "error", "message": "no", "code": 400}, "no"),
        ("<h1>no</h1>\n", "<h1>no</h1>"),
        ({"detail": [{"msg": "é"}]}, '{"detail": [{"msg": "é"}]}'),
        ({"message": None}, '{"message": null}'),
        ([1], "[1]"),
        ("", ""),
        (None, ""),
    ],
)
def test_the_words_are_found_in_every_form(body: Any, words: str) -> None:
    """L-39: the provider's message, wherever it stands; what has none is shown whole."""
    assert words_of(body) == words


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "quota is used up"}},
        [{"error": {"code": 400, "message": "quota is used up"}}],
        {"error": "quota is used up"},
        {"detail": "quota is used up"},
        {"object": "error", "message": "quota is used up"},
        b"quota is used up",
    ],
)
async def test_the_words_of_an_error_status(body: Any) -> None:
    """L-39, L-154: the message is in the failure, whatever form the server gives it."""
    error = await failing(answered(418, body), "x")
    assert (error.kind, error.status) == ("http", 418)
    assert str(error) == "APIStatusError 418: quota is used up"


async def test_an_error_status_without_a_body() -> None:
    """L-39: the status is all that there is."""
    assert "500" in str(await failing(answered(500, b""), "x"))


@pytest.mark.parametrize(
    ("chunk", "kind", "status"),
    [
        ({"error": {"message": "m", "code": "CONTEXT_LENGTH_EXCEEDED"}}, "overflow", None),
        ({"error": {"message": "m", "type": "Server_Error"}}, "http", 500),
        ({"error": {"message": "m", "code": "503"}}, "http", 503),
        ({"error": {"message": "m", "code": 50001}}, "other", None),
        ({"error": {"message": "m", "code": 3051, "type": "invalid_request_error"}}, "http", 400),
        ({"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, "http", 400),
        ({"choices": [], "error": {"message": "m", "code": 502}}, "http", 502),
    ],
)
def test_error_objects_of_other_servers(chunk: dict[str, Any], kind: str, status: int | None) -> None:
    """L-154: by code and type in any case; a number that is no status is none; an error may stand bare."""
    with pytest.raises(BackendError, match=r"^m$") as raised:
        list(deltas_of(chunk))
    assert (raised.value.kind, raised.value.status) == (kind, status)


@pytest.mark.parametrize(
    "body",
    [
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (105) exceeds the maximum number of tokens (100).",
                }
            }
        ],
        {"error": "The model is loaded with context length of only 4096 tokens"},
        {"error": {"code": 400, "message": "request (33 tokens) exceeds the available context size (32 tokens)"}},
        {"error": {"message": "no", "code": "Context_Length_Exceeded"}},
    ],
)
async def test_too_long_in_the_words_of_other_servers(body: Any) -> None:
    """L-40, L-73, L-154: a refusal on size, also where the words stand in another place than OpenAI's."""
    loop = Loop(backends=[answered(400, body)], retry=RetryPolicy(max_attempts=1))
    async with loop:
        outcome = await loop.run("hi").result
    assert (outcome.outcome, outcome.reason) == ("failed", "context-exhausted")


async def test_a_key_that_is_fetched_is_hidden_too() -> None:
    """L-39: also where a client asks for its key anew at each request."""

    async def fetch() -> str:
        return KEY

    backend = answered(401, {"error": {"message": f"{KEY} is no key"}}, fetch)
    assert str(await failing(backend, "x")).endswith(": *** is no key")
