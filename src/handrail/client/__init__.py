"""The consuming end: agents that speak AG-UI, and a session that drives one.

`HttpAgent` is loaded at its first use: it alone needs httpx (`handrail[client]`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from handrail.agui._verdict import CANCELLED_CODE, CLIENT_ERROR_CODE
from handrail.client._agent_run import AgentReport, AgentRun
from handrail.client._loop_agent import LoopAgent
from handrail.client._params import RunParams
from handrail.client._port import Agent
from handrail.client._session import AgentSession

if TYPE_CHECKING:
    from handrail.client._http import HttpAgent

__all__ = [
    "CANCELLED_CODE",
    "CLIENT_ERROR_CODE",
    "Agent",
    "AgentReport",
    "AgentRun",
    "AgentSession",
    "HttpAgent",
    "LoopAgent",
    "RunParams",
]


def __getattr__(name: str) -> Any:
    if name != "HttpAgent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module("handrail.client._http").HttpAgent
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ImportError("HttpAgent needs httpx: pip install 'handrail[client]'", name="httpx") from error
