"""The server of the sessions, a program of its own: `python -m tests.endurance.server PORT`.

Beside the agent it answers `/figures`: what the process holds, and the noise it has made.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from starlette.responses import JSONResponse
from tests.endurance.figures import fill_caches, taken
from tests.endurance.model import new_loop
from tests.endurance.noise import Noise

from handrail.server import agui_app

HELD = 10
"""Runs that are over and stay readable."""


def main(port: int) -> None:
    noise = Noise()
    fill_caches()
    agent = agui_app(new_loop(asks=False), max_held_runs=HELD, on_warning=lambda record: None)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == "/figures":
            await JSONResponse({"figures": taken().to_dict(), "noise": noise.heard})(scope, receive, send)
        else:
            await agent(scope, receive, send)

    uvicorn.run(app, port=port, log_level="critical", access_log=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
