"""Who the chat is held with, and what runs on this side: what was named on the command line, as objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handrail.apps._load import AnyTool, load_loop, load_tools
from handrail.apps._remote import is_url, remote_agent, url_meant
from handrail.client import Agent, LoopAgent
from handrail.errors import UsageError
from handrail.tools import Tool

__all__ = ["agent_named", "tools_with_consent"]


def agent_named(name: str, headers: Mapping[str, str] | None = None) -> Agent:
    """The agent called `name`: a URL, `module:loop` or `module` (a `Loop` or an agent), or "demo". Raises `UsageError`.

    `headers` go with every request to a URL.
    """
    if is_url(name):
        return remote_agent(name, headers=headers)
    if "://" in name or url_meant(name):
        raise UsageError(f"{name!r} is no URL of an agent; it begins with http:// or https://.{url_meant(name)}")
    if headers:
        raise UsageError(f"--header goes with a URL, which {name!r} is not.")
    if name == "demo":
        from handrail.apps.chat._demo import demo_loop

        return LoopAgent(demo_loop())
    found = load_loop(name)
    if callable(getattr(found, "start", None)):
        return found
    if callable(getattr(found, "run", None)):
        return LoopAgent(found, error_text=lambda outcome: outcome.error)  # whoever runs it may know what went wrong
    raise UsageError(f"{name!r} is a {type(found).__name__}; it takes a Loop, or an agent with a method start().")


def tools_with_consent(module: str) -> Sequence[Tool]:
    """The tools of a module, each of which asks before it runs. Raises `UsageError`."""
    try:
        return [_asking(given) for given in load_tools(module)]
    except (TypeError, ValueError) as refusal:
        raise UsageError(f"These tools cannot be used: {refusal}") from refusal


def _asking(given: AnyTool) -> Tool:
    tool: Any = given if isinstance(given, Tool) else Tool(given)
    if tool.needs_approval:
        return tool
    return Tool(
        tool.fn,
        name=tool.name,
        description=tool.description,
        timeout=tool.timeout,
        parallel=tool.parallel,
        needs_approval=True,
    )
