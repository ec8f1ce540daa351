"""A tool that needs an approval, and runs whose model calls it."""

from __future__ import annotations

from typing import Any

from handrail import Loop, Tool
from handrail.testing import Collected, ScriptedBackend, call, text

from .kit import play


class Shop:
    """A tool that needs an approval, and one that does not; `done` is what was really done."""

    def __init__(self, *, parallel: bool = False) -> None:
        self.done: list[str] = []
        self.tools = [
            Tool(self._buy, name="buy", needs_approval=True, parallel=parallel),
            Tool(self._look, name="look"),
        ]

    def _buy(self, item: str) -> str:
        self.done.append(item)
        return f"bought {item}"

    def _look(self) -> str:
        return "seen"

    def loop(self, *script: Any, **options: Any) -> Loop:
        return Loop(backends=[ScriptedBackend(script)], tools=self.tools, **options)


def buy(item: str, id: str) -> Any:
    return call("buy", {"item": item}, id=id)


async def asked(shop: Shop, *calls: Any) -> Collected[Any]:
    """A run that ended because its model made these calls."""
    return await play(shop.loop([text("May I?"), *calls]))
