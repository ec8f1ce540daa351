"""Who the chat is held with, and what runs on this side: what was named on the command line, as objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ag_ui.core import RunAgentInput

from handrail.apps._load import AnyTool, is_loop, load_loop, load_tools
from handrail.apps._remote import is_url, remote_agent, url_meant
from handrail.client import Agent, AgentRun, LoopAgent
from handrail.errors import UsageError
from handrail.events import RunEvent
from handrail.run import Outcome, Run
from handrail.tools import Tool

__all__ = ["agent_named", "tools_with_consent"]


def agent_named(name: str, headers: Mapping[str, str] | None = None) -> Agent:
    """The agent called `name`: a URL, `module:loop` or `module`, or "demo". Raises `UsageError`.

    What a module has is a `Loop`, a function that makes one for each run, or an agent. `headers` go with every request
    to a URL.
    """
    if is_url(name):
        return remote_agent(name, headers=headers)
    if "://" in name or name.startswith(("http:/", "https:/")) or url_meant(name):
        raise UsageError(f"{name!r} is no URL of an agent; it begins with http:// or https://.{url_meant(name)}")
    if headers:
        raise UsageError(f"--header goes with a URL, which {name!r} is not.")
    if name == "demo":
        from handrail.apps.chat._demo import demo_loop

        return LoopAgent(demo_loop())
    found = load_loop(name, _is_agent, "an agent with a method start(); an agui_app is talked to where it is served")
    if _is_agent(found):
        return found
    return LoopAgent(found, error_text=_why) if is_loop(found) else _MakerAgent(found)


def _is_agent(found: object) -> bool:
    return callable(getattr(found, "start", None))


def _why(outcome: Outcome) -> str:
    """Whoever runs a loop here may know what went wrong."""
    return outcome.error or ""


class _MakerAgent:
    """An agent that asks a function for the loop of each run, as an endpoint does where nobody has to be authorized."""

    def __init__(self, make: Callable[[RunAgentInput, None], Any]) -> None:
        self._make = make

    def start(self, input: RunAgentInput, /) -> AgentRun:
        """The run of the loop that is made for this input."""
        return LoopAgent(_Made(self._make, input.model_copy(deep=True)), error_text=_why).start(input)


class _Made:
    """The loop that a function makes for an input, when it is run."""

    def __init__(self, make: Callable[[RunAgentInput, None], Any], given: RunAgentInput) -> None:
        self._make = make
        self._given = given

    async def run(self, messages: Any, **asked: Any) -> Run[RunEvent]:
        made: Any = self._make(self._given, None)
        loop = await made if inspect.isawaitable(made) else made
        if not is_loop(loop):
            raise TypeError(f"the function that makes the loop returned a {type(loop).__name__}, not a Loop")
        return loop.run(messages, **asked)


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
