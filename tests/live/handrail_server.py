"""A server of ours that plays the scenarios of the others: `python handrail_server.py --port N`, `POST /agui`.

The scenario is the first word of the last user message. The model is scripted; loop, endpoint and uvicorn are real.
"""

from __future__ import annotations

import argparse
from typing import Any

import uvicorn
from ag_ui.core import RunAgentInput, ToolMessage, UserMessage

from handrail import Loop, Tool
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, Step, call, delay, fail, reasoning, text

TEXT = ("Hello ", "from ", "the ", "fake ", "model: ", "café ✓ 🚀", ".")

SCENARIOS: dict[str, list[Step]] = {
    "text": [text(*TEXT)],
    "tool": [
        [text("Let me look. "), call("get_weather", {"city": "Paris"}, id="call_w1", fragments=2)],
        text("get_weather said ", "18C in Paris. ", "Done."),
    ],
    "client-tool": [call("get_location", {"accuracy": "high"}, id="call_c1", fragments=2)],
    "two-client-tools": [
        [
            call("get_location", {"accuracy": "low"}, id="call_c1", fragments=2),
            call("get_location", {"accuracy": "low"}, id="call_c2", fragments=2),
        ]
    ],
    "interrupt": [call("delete_file", {"path": "/etc/motd"}, id="call_d1", fragments=2)],
    "error": [[text("Half an ", "answ"), fail("misuse", message="the model died mid-stream")]],
    "error-first": [fail("misuse", message="the model is down")],
    "reasoning": [[reasoning("First ", "think."), text(*TEXT)]],
    "slow": [[move for word in TEXT for move in (delay(0.15), text(word))]],
}


def get_weather(city: str) -> str:
    return f"18C in {city}"


def delete_file(path: str) -> str:
    return f"deleted {path}"


def loop_for(given: RunAgentInput, principal: object) -> Loop:
    """What answers this request: the scenario, or, once its calls are answered, the end of it."""
    asked = max(index for index, message in enumerate(given.messages) if isinstance(message, UserMessage))
    results = [message.content for message in given.messages[asked:] if isinstance(message, ToolMessage)]
    content: Any = given.messages[asked].content
    goes_on = bool(results or given.resume)
    steps = (
        [text(*(f"It said {result}. " for result in results), "Done.")] if goes_on else SCENARIOS[content.split()[0]]
    )
    return Loop([ScriptedBackend(steps)], tools=[get_weather, Tool(delete_file, needs_approval=True)])


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    app = agui_app(loop_for, busy="queue")  # a client that comes again before it was missed waits for that
    uvicorn.run(app, host="127.0.0.1", port=options.parse_args().port, log_level="warning")
