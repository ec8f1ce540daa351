"""A FastAPI application with an agent in it.

    uvicorn examples.fastapi_app:app

Web pages and programs that speak AG-UI find the agent at /agent/, with the slash. Everything a request needs is in it:
the user comes from a header, the conversation from the body, and nothing is kept between two runs but a ledger.
"""

from __future__ import annotations

from typing import Any

from ag_ui.core import RunAgentInput
from fastapi import FastAPI

from handrail import Budget, Loop, Outcome, tool
from handrail.server import Refuse, ServerRequest, agui_app
from handrail.testing import ScriptedBackend, call, text

TOKENS = {"Bearer ada-1": "ada", "Bearer bob-2": "bob"}
ORDERS = {"ada": ["a lamp"], "bob": []}

ledger: list[tuple[str, str]] = []


def who(request: ServerRequest) -> str:
    """The user, from the token; whoever has none learns that they need one."""
    user = TOKENS.get(request.headers.get("authorization", ""))
    if user is None:
        raise Refuse(401, "Sign in first.", "no-token")
    return user


def agent_for(given: RunAgentInput, user: str) -> Loop:
    """The agent of this user: its tools see their orders and nobody else's."""

    @tool
    def orders() -> list[str]:
        """What the user has ordered."""
        return ORDERS[user]

    @tool(needs_approval=True)
    def cancel_order(item: str) -> str:
        """Cancel an order."""
        ORDERS[user].remove(item)
        return f"{item} is cancelled"

    # A script stands in for a model: OpenAIBackend("gpt-5") from handrail.backends.openai.
    model = ScriptedBackend([call("orders"), text("You ordered a lamp.")])
    return Loop([model], [orders, cancel_order], system="You are a shop assistant.", budget=Budget(max_wall_clock=120))


def keep(given: RunAgentInput, outcome: Outcome) -> None:
    """How every run ended, whether or not somebody was still reading."""
    ledger.append((given.run_id, outcome.outcome))


app = FastAPI()
app.mount("/agent", agui_app(agent_for, authorize=who, on_finish=keep, allow_origins=["https://shop.example"]))


@app.get("/runs")
async def runs() -> list[dict[str, Any]]:
    """An ordinary route beside it."""
    return [{"run": run_id, "outcome": outcome} for run_id, outcome in ledger]
