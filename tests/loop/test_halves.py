"""Halves of surrogate pairs, which providers cut characters into and file names hold: none gets into a conversation."""

from __future__ import annotations

import json
import os
from typing import Any

from ag_ui.core import TextPart

from handrail import Loop, events, user
from handrail.testing import ScriptedBackend, call, reasoning, text

from .kit import answers, play

HIGH, LOW = "\ud83d", "\ude00"
SMILE = "\U0001f600"


def encodable(message: Any) -> bool:
    return bool(message.model_dump_json())


async def test_halves_in_two_deltas_are_one_character() -> None:
    """L-14, L-141, L-142: in the tokens, the text and the reasoning; the conversation can go on."""
    backend = ScriptedBackend([[reasoning(HIGH, LOW), text("a" + HIGH, LOW + "b", "c")], text("fin")])
    loop = Loop(backends=[backend])
    got = await play(loop)
    assert got.outcome.final == got.text() == f"a{SMILE}bc"
    assert [e.text for e in got.of(events.Token)] == ["a", f"{SMILE}b", "c"]
    assert [e.text for e in got.of(events.ReasoningToken)] == [SMILE]
    assert [m.content for m in got.outcome.messages] == ["hi", SMILE, f"a{SMILE}bc"]
    assert all(map(encodable, got.outcome.messages))
    again = await play(loop, [*got.outcome.messages, user("go on")])
    assert again.outcome.final == "fin"


async def test_a_half_without_its_partner() -> None:
    """L-14, L-141: becomes U+FFFD, wherever it stands."""
    backend = ScriptedBackend([[reasoning(f"{LOW}r{HIGH}"), text(f"{LOW}a", f"{HIGH}b", HIGH)]])
    got = await play(Loop(backends=[backend]))
    assert got.outcome.final == got.text() == "\ufffda\ufffdb\ufffd"
    assert got.outcome.messages[1].content == "\ufffdr\ufffd"
    json.dumps(got.outcome.to_dict(), ensure_ascii=False).encode()


async def test_halves_in_calls() -> None:
    """L-34, L-141: arguments that are cut in a character are joined; ids, names and arguments can be encoded."""
    seen: list[str] = []

    def look(at: str) -> str:
        seen.append(at)
        return at

    cut = call("look", id="c", fragments=['{"at": "' + HIGH, LOW + '"}'], arguments='{"at": "' + HIGH + LOW + '"}')
    odd = call(f"n{HIGH}", f'{{"at": "{HIGH}"}}', id=f"i{LOW}")
    got = await play(Loop(backends=[ScriptedBackend([[cut, odd], text("fin")])], tools=[look]))
    assert got.outcome.final == "fin"
    assert seen == [SMILE]
    assert all(map(encodable, got.outcome.messages))


async def test_halves_in_results() -> None:
    """L-84, L-86, L-141: as text, as a part, in an error: what the model is shown can be encoded."""
    name = os.fsdecode(b"caf\xe9.txt")

    def plain() -> str:
        return name

    def part() -> TextPart:
        return TextPart(text=name)

    def broken() -> str:
        raise ValueError(name)

    calls = [call("plain", id="a"), call("part", id="b"), call("broken", id="c")]
    backend = ScriptedBackend([calls, text("fin")])
    got = await play(Loop(backends=[backend], tools=[plain, part, broken]))
    assert answers(got)["a"] == "caf\ufffd.txt"
    assert answers(got)["c"] == "ValueError: caf\ufffd.txt"
    assert all(map(encodable, got.outcome.messages))


async def test_halves_in_the_input() -> None:
    """L-141: a history that has them is shown to the model without."""
    backend = ScriptedBackend([text("fin")])
    got = await play(Loop(backends=[backend], system=f"s{HIGH}"), [user(f"a{HIGH}{LOW}{HIGH}")])
    assert got.outcome.final == "fin"
    assert [m.content for m in backend.requests[0].messages] == ["s\ufffd", f"a{SMILE}\ufffd"]
