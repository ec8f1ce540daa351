"""What the loops of these tests are made of: models, and a tool."""

from __future__ import annotations

from typing import Any

from handrail import Loop
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, gate, text


def endless() -> ScriptedBackend:
    """A model that is never at a loss."""
    return ScriptedBackend([text("ok")] * 300)


def look() -> str:
    """Look."""
    return "x"


class Turns:
    """A model that holds every answer until it is told to go on."""

    def __init__(self, count: int) -> None:
        self.gates = [gate() for _ in range(count)]
        self.backend = ScriptedBackend([[text(f"<{n}>"), held] for n, held in enumerate(self.gates)])

    def app(self, **options: Any) -> Any:
        return agui_app(Loop([self.backend]), **options)
