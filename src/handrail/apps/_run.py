"""`handrail run`: one run of a model named on the command line, with the tools of a module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

from handrail.apps._load import load_tools
from handrail.apps._remote import headers_of
from handrail.apps._watch import watch
from handrail.errors import UsageError
from handrail.loop import Backend, Budget, Loop
from handrail.run import Outcome

__all__ = ["run"]


def run(
    text: str,
    *,
    model: str,
    base_url: str | None,
    headers: Sequence[str] = (),
    tools: str | None,
    as_json: bool,
) -> int:
    """Run `text` and show it; returns the exit code. Raises `UsageError` for what cannot be started."""
    backend = _backend(model, base_url, headers_of(headers))
    try:
        loop = Loop(backends=[backend], tools=load_tools(tools) if tools else (), budget=Budget())
    except (TypeError, ValueError) as refusal:
        raise UsageError(f"These tools cannot be used: {refusal}") from refusal
    return watch(loop.run(text), as_json=as_json, hint=partial(_hint, base_url))


def _backend(model: str, base_url: str | None, headers: Mapping[str, str]) -> Backend:
    provider, _, name = model.partition(":")
    if not name or provider not in _PROVIDERS:
        known = ", ".join(f"{prefix}:NAME" for prefix in _PROVIDERS)
        raise UsageError(f"There is no model {model!r}; --model takes {known}.")
    if base_url and not _is_web_address(base_url):
        raise UsageError(f"--base-url {base_url!r} is no web address; it looks like http://localhost:11434/v1.")
    return _PROVIDERS[provider](name, base_url, headers)


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is none, or half an IPv6 address
        return False


def _openai(name: str, base_url: str | None, headers: Mapping[str, str]) -> Backend:
    try:
        from handrail.backends.openai import OpenAIBackend
    except ImportError as missing:
        raise UsageError(f"{missing}.") from missing
    key = os.environ.get("OPENAI_API_KEY")
    if not key and not base_url:
        raise UsageError("There is no key. Set OPENAI_API_KEY, or name a server that needs none with --base-url.")
    return OpenAIBackend(name, base_url=base_url, api_key=key or "none", extra_headers=headers)


_PROVIDERS: dict[str, Callable[[str, str | None, Mapping[str, str]], Backend]] = {"openai": _openai}


def _hint(base_url: str | None, outcome: Outcome) -> str | None:
    """What a person can do about a run that failed with its last attempt."""
    if outcome.outcome != "failed" or not outcome.attempts:
        return None
    where = base_url or "the server of OpenAI"
    last = outcome.attempts[-1]
    match last.error_class, last.status:
        case "connection" | "timeout", _ if base_url is None:
            return "Is there a way to the server of OpenAI from here? --base-url names another."
        case "connection" | "timeout", _:
            return f"Is the server running, and is --base-url right? It was {where}."
        case "http", 401 | 403:
            return "The server does not accept the key; it is taken from OPENAI_API_KEY."
        case "http", 404:
            return f"Is the model's name right, and the path of --base-url? Most end in /v1; it was {where}."
        case "response", _:
            return f"Does {where} speak the chat completions API of OpenAI? Most base URLs end in /v1."
        case _:
            return None
