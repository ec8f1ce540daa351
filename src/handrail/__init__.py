"""handrail: the handle on an agent run.

The front door: the public names and nothing else. Each is loaded at its first use, because the AG-UI models alone take
longer to import than everything here may.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handrail.agui import WarningRecord as WarningRecord
    from handrail.agui import abandon as abandon
    from handrail.agui import answer as answer
    from handrail.agui import approve as approve
    from handrail.agui import deny as deny
    from handrail.agui import edit as edit
    from handrail.client import CANCELLED_CODE as CANCELLED_CODE
    from handrail.client import CLIENT_ERROR_CODE as CLIENT_ERROR_CODE
    from handrail.client import AgentReport as AgentReport
    from handrail.client import AgentRun as AgentRun
    from handrail.client import AgentSession as AgentSession
    from handrail.client import HttpAgent as HttpAgent
    from handrail.client import LoopAgent as LoopAgent
    from handrail.client import RunParams as RunParams
    from handrail.errors import AbortRun as AbortRun
    from handrail.errors import BackendError as BackendError
    from handrail.errors import HandrailError as HandrailError
    from handrail.errors import HttpError as HttpError
    from handrail.errors import InterruptedThreadError as InterruptedThreadError
    from handrail.errors import LocalProtocolError as LocalProtocolError
    from handrail.errors import NotInterruptedError as NotInterruptedError
    from handrail.errors import NotSettled as NotSettled
    from handrail.errors import PatchError as PatchError
    from handrail.errors import ReentrantCallError as ReentrantCallError
    from handrail.errors import Refuse as Refuse
    from handrail.errors import RemoteDecodeError as RemoteDecodeError
    from handrail.errors import RemoteProtocolError as RemoteProtocolError
    from handrail.errors import ResumeError as ResumeError
    from handrail.errors import RunIdReusedError as RunIdReusedError
    from handrail.errors import SessionBusyError as SessionBusyError
    from handrail.errors import SessionClosedError as SessionClosedError
    from handrail.errors import TransportError as TransportError
    from handrail.errors import TruncatedError as TruncatedError
    from handrail.errors import UsageError as UsageError
    from handrail.errors import WireError as WireError
    from handrail.loop import Attempt as Attempt
    from handrail.loop import Backend as Backend
    from handrail.loop import BackendRequest as BackendRequest
    from handrail.loop import Budget as Budget
    from handrail.loop import FinishDelta as FinishDelta
    from handrail.loop import Limits as Limits
    from handrail.loop import Loop as Loop
    from handrail.loop import LoopRun as LoopRun
    from handrail.loop import ReasoningDelta as ReasoningDelta
    from handrail.loop import RetryPolicy as RetryPolicy
    from handrail.loop import TextDelta as TextDelta
    from handrail.loop import ToolCallDelta as ToolCallDelta
    from handrail.loop import Usage as Usage
    from handrail.loop import UsageDelta as UsageDelta
    from handrail.loop import Window as Window
    from handrail.messages import assistant as assistant
    from handrail.messages import system as system
    from handrail.messages import user as user
    from handrail.run import EventStream as EventStream
    from handrail.run import Outcome as Outcome
    from handrail.run import Run as Run
    from handrail.run import RunDriver as RunDriver
    from handrail.run import RunScope as RunScope
    from handrail.run import Settled as Settled
    from handrail.run import Spend as Spend
    from handrail.run import drive as drive
    from handrail.tools import Tool as Tool
    from handrail.tools import ToolContext as ToolContext
    from handrail.tools import tool as tool
    from handrail.transcript import ActivityPart as ActivityPart
    from handrail.transcript import Failed as Failed
    from handrail.transcript import FilePart as FilePart
    from handrail.transcript import Finished as Finished
    from handrail.transcript import Idle as Idle
    from handrail.transcript import ReasoningPart as ReasoningPart
    from handrail.transcript import Running as Running
    from handrail.transcript import RunState as RunState
    from handrail.transcript import TextPart as TextPart
    from handrail.transcript import ToolCallPart as ToolCallPart
    from handrail.transcript import Transcript as Transcript
    from handrail.transcript import TranscriptMessage as TranscriptMessage
    from handrail.transcript import TranscriptReducer as TranscriptReducer

_HOME: dict[str, str] = {
    name: module
    for module, names in {
        "agui": "WarningRecord abandon answer approve deny edit",
        "client": "AgentReport AgentRun AgentSession CANCELLED_CODE CLIENT_ERROR_CODE HttpAgent LoopAgent RunParams",
        "errors": (
            "AbortRun BackendError HandrailError HttpError InterruptedThreadError LocalProtocolError "
            "NotInterruptedError NotSettled PatchError ReentrantCallError Refuse RemoteDecodeError "
            "RemoteProtocolError ResumeError RunIdReusedError SessionBusyError SessionClosedError TransportError "
            "TruncatedError UsageError WireError"
        ),
        "loop": (
            "Attempt Backend BackendRequest Budget FinishDelta Limits Loop LoopRun ReasoningDelta RetryPolicy "
            "TextDelta ToolCallDelta Usage UsageDelta Window"
        ),
        "messages": "assistant system user",
        "run": "EventStream Outcome Run RunDriver RunScope Settled Spend drive",
        "tools": "Tool ToolContext tool",
        "transcript": (
            "ActivityPart Failed FilePart Finished Idle ReasoningPart RunState Running TextPart ToolCallPart "
            "Transcript TranscriptMessage TranscriptReducer"
        ),
    }.items()
    for name in names.split()
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]  # computed from the one table above
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'handrail' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"handrail.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
