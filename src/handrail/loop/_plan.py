"""What is to be done about a call, before anything is done. Pure.

`plan_of` holds a call against the catalogue: whose it is, whether its arguments fit, whether a person must be asked.
`judge` then says what follows from the plan and from what the person said, if one was asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from ag_ui import core as agui
from ag_ui.core import FunctionCall, Interrupt, ResumeEntry, ToolCall

from handrail.agui._approvals import Given, question
from handrail.agui._interrupts import decide
from handrail.loop._backend import ToolSpec
from handrail.tools import ArgumentsError, Tool

__all__ = ["Catalogue", "Denied", "Plan", "Ready", "Refused", "judge", "plan_of"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A tool as a backend is shown it."""

    name: str
    description: str
    parameters: Any


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a run can call: `tools` are executed here, `declared` ones by the client. Names are used once."""

    tools: Mapping[str, Tool]
    declared: Mapping[str, agui.Tool]

    def specs(self) -> tuple[ToolSpec, ...]:
        """All of them, as the backends of one run are shown them: copies, on which an adapter may work."""
        shown = (*self.tools.values(), *self.declared.values())
        return tuple(Shown(tool.name, tool.description, deepcopy(tool.parameters)) for tool in shown)

    def __bool__(self) -> bool:
        return bool(self.tools or self.declared)

    def needs_approval(self, call: ToolCall) -> bool:
        """Whether the call is to a tool of ours that nobody may run unasked."""
        tool = self.tools.get(call.function.name)
        return tool is not None and tool.needs_approval


@dataclass(frozen=True, slots=True)
class Plan:
    """A call held against the catalogue. `refusal` says what is wrong with it, `interrupt` is what to ask about it."""

    call: ToolCall
    tool: Tool | None = None
    arguments: Mapping[str, Any] | None = None
    refusal: str | None = None
    interrupt: Interrupt | None = None
    answer: Given | None = None

    @property
    def is_clients(self) -> bool:
        """Whether the client executes it."""
        return self.tool is None and self.refusal is None


@dataclass(frozen=True, slots=True)
class Ready:
    """The call, as it is to run, if need be with edited arguments; `preface` is a line that goes before its result."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any]
    preface: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The call gets an error result and is not run."""

    text: str


@dataclass(frozen=True, slots=True)
class Denied:
    """A person said no, or took the question back."""

    reason: Literal["denied", "withdrawn"]
    detail: str | None


def plan_of(catalogue: Catalogue, call: ToolCall, answer: Given | None = None, is_waiting: bool = False) -> Plan:
    """What is to be done about a call. `is_waiting`: an earlier run left it open; `answer` is what was said since."""
    name = call.function.name
    if name in catalogue.declared:
        return Plan(call)
    tool = catalogue.tools.get(name)
    if tool is None:
        known = ", ".join((*catalogue.tools, *catalogue.declared))
        return Plan(call, refusal=f"There is no tool named {name!r}. The tools are: {known}")
    try:
        arguments = tool.check(call.function.arguments)
    except ArgumentsError as error:
        # A call that has waited goes on waiting, whatever its arguments: it is not refused unasked.
        return Plan(call, tool, None, str(error), question(call, {}) if is_waiting else None, answer)
    return Plan(call, tool, arguments, None, question(call, arguments) if tool.needs_approval else None, answer)


def judge(plan: Plan, entry: ResumeEntry | None) -> Ready | Refused | Denied:
    """What follows from a plan and the entry on which it is decided; None: nobody was to be asked."""
    decision = None if entry is None else decide(entry)
    if decision is not None and decision.kind != "approved":
        return Denied(decision.kind, decision.reason)
    if decision is not None and decision.edited and plan.tool is not None:
        return _edited(plan.call, plan.tool, decision.arguments)
    if plan.tool is None or plan.arguments is None:
        return Refused(plan.refusal or "")
    return Ready(plan.call, plan.tool, plan.arguments)


def _edited(call: ToolCall, tool: Tool, arguments: Any) -> Ready | Refused:
    try:
        checked = tool.check_object(arguments)
    except ArgumentsError as error:
        return Refused(f"The edited arguments were refused and the call was not run. {error}")
    text = json.dumps(checked, ensure_ascii=False)
    edited = call.model_copy(update={"function": FunctionCall(name=call.function.name, arguments=text)})
    return Ready(edited, tool, checked, f"Run with edited arguments: {text}")
