"""What the chat lays out, without a screen: the blocks of a transcript."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.apps.chatting import Agent, calls, finished, says, started

from handrail import AgentSession
from handrail.apps._visible import visible
from handrail.apps.chat._sheet import Block, Sheet
from handrail.messages import assistant, user
from handrail.testing import ScriptedAgent
from handrail.transcript import Transcript


async def shown(*stream: object, said: str = "hi") -> tuple[Transcript, list[Block]]:
    session = AgentSession(Agent([started(), *stream, finished()]))  # pyright: ignore
    await session.send(said)
    return session.transcript, Sheet().blocks(session.transcript)


def texts(blocks: list[Block]) -> list[tuple[str, str]]:
    return [(block.look, block.text) for block in blocks]


async def test_a_turn_is_drawn_in_order_of_arrival() -> None:
    _, blocks = await shown(*says("m1", "Let me look."), *calls("c1", "weather", '{"city": "Rome"}', "warm"))
    assert texts(blocks) == [
        ("speaker", "you"),
        ("said", "hi"),
        ("speaker", "agent"),
        ("prose", "Let me look."),
        ("good", 'weather  ✓ complete\n→ {"city": "Rome"}\n← warm'),
    ]


async def test_two_tries_at_an_answer_are_told_apart() -> None:
    """What a failed run had said stays, and is not the beginning of what the next one says."""
    cut = [started(), *says("m1", "It is")]
    session = AgentSession(Agent(cut, [started(), *says("m2", "It is warm."), finished()]))
    assert not (await session.send("hi")).ok
    assert (await session.run()).ok
    assert texts(Sheet().blocks(session.transcript))[2:] == [
        ("speaker", "agent"),
        ("prose", "It is"),
        ("speaker", "agent"),
        ("prose", "It is warm."),
    ]


async def test_how_an_exchange_ended_is_said_in_front_of_what_follows() -> None:
    """Of the last one the status line says it."""
    sheet = Sheet()
    session = AgentSession(
        Agent([started(), *says("m1", "It is")], [started(), *says("m2", "It is warm."), finished()])
    )
    await session.send("hi")
    sheet.ended(session.transcript, "■ stopped")
    alone = sheet.blocks(session.transcript)
    assert texts(alone)[-1] == ("prose", "It is")
    await session.send("again")
    first, second = (sheet.blocks(session.transcript) for _ in range(2))
    assert texts(first)[len(alone) :] == [
        ("note", "■ stopped"),
        ("speaker", "you"),
        ("said", "again"),
        ("speaker", "agent"),
        ("prose", "It is warm."),
    ]
    assert all(one is other for one, other in zip(first, second, strict=True))
    sheet.ended(AgentSession(ScriptedAgent()).transcript, "of nothing, nothing is said")


async def test_what_ended_well_after_all_has_no_mark() -> None:
    """A retry that says nothing leaves the same message the last one."""
    sheet = Sheet()
    session = AgentSession(Agent([started()], [started(), finished()], [started(), *says("m", "Hm."), finished()]))
    for verdict in ("■ stopped", ""):
        await (session.run() if session.messages else session.send("hi"))
        sheet.ended(session.transcript, verdict)
    await session.send("and?")
    assert "note" not in {block.look for block in sheet.blocks(session.transcript)}


async def test_a_call_that_the_run_left_behind_is_told_from_one_that_failed() -> None:
    """S-80: how its tool did is not known. The next request says that no answer came, and that is no result either."""
    broken = {"type": "RUN_ERROR", "message": "connection lost"}
    session = AgentSession(Agent([started(), *calls("c1", "look", "{}"), broken], [started(), finished()]))
    await session.send("hi")
    lost = ("bad", "look  ✗ the run ended before its result\n→ {}\n← (none: connection lost)")
    assert texts(Sheet().blocks(session.transcript))[-1] == lost
    await session.send("again")
    told = next(text for look, text in texts(Sheet().blocks(session.transcript)) if look == "bad")
    assert told.splitlines()[0] == lost[1].splitlines()[0]
    assert "the run ended before this call was answered" in told


async def test_nothing_that_is_drawn_can_command_a_terminal() -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202egnp\x9b1m"
    _, blocks = await shown(*says("m1", evil), *calls("c1", evil, f'{{"a": "{evil}"}}', evil * 200), said=evil)
    drawn = "".join(f"{block.text}{block.more}" for block in blocks)
    assert drawn == visible(drawn)
    assert r"\x1b]0;title\x07" in drawn


async def test_what_did_not_change_is_the_same_object() -> None:
    session = AgentSession(
        Agent([started(), *says("m1", "one"), finished()], [started(), *says("m2", "two"), finished()]),
    )
    sheet = Sheet()
    await session.send("a")
    first = sheet.blocks(session.transcript)
    await session.send("b")
    second = sheet.blocks(session.transcript)
    assert all(before is after for before, after in zip(first, second[: len(first)], strict=True))


async def test_what_left_the_transcript_is_forgotten() -> None:
    sheet = Sheet()
    session = AgentSession(ScriptedAgent(), messages=[user("x" * 10)])
    sheet.blocks(session.transcript)
    assert sheet.blocks(AgentSession(ScriptedAgent()).transcript) == []
    assert sheet._parts == sheet._pages == sheet._leaves == {}  # pyright: ignore


def calls_made(work: Callable[[], object]) -> int:
    """How many Python functions that calls."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


async def test_laying_out_again_costs_the_same_in_any_conversation() -> None:
    """F-17."""
    costs: list[int] = []
    for turns in (10, 2_000):
        history = [user(f"question {n}") if n % 2 == 0 else assistant(f"answer {n}") for n in range(turns)]
        session = AgentSession(Agent([started(), *says("m1", "one"), finished()]), messages=history)
        sheet = Sheet()
        sheet.blocks(session.transcript)
        await session.send("another")
        transcript = session.transcript
        assert transcript.messages
        costs.append(calls_made(lambda sheet=sheet, transcript=transcript: sheet.blocks(transcript)))
        assert len(sheet.blocks(transcript)) > turns
    assert costs[0] == costs[1]


async def test_an_answer_that_grows_costs_its_last_leaf() -> None:
    """F-17."""
    text = "All work and no play.\n\n" * 2_000
    seen: list[Transcript] = []
    session = AgentSession(Agent([started(), *says("m1", text, *["word "] * 3), finished()]))
    session.subscribe(seen.append)
    await session.send("go")
    sheet = Sheet()
    growing = [transcript for transcript in seen if len(transcript.text) > len(text)][:4]
    sheet.blocks(growing[0])
    assert sheet.is_behind
    while sheet.is_behind:
        blocks = sheet.blocks(growing[0])
    assert sum(len(block.text) for block in blocks) >= len(text)
    costs = [calls_made(lambda one=one: sheet.blocks(one)) for one in growing[1:]]
    assert max(costs) < 100


async def test_a_text_that_is_laid_out_in_parts_is_not_done_before_its_end() -> None:
    text = "- item\n" * 10_000
    session = AgentSession(ScriptedAgent(), messages=[assistant("first"), user("?"), assistant(text)])
    sheet = Sheet()
    times = 1
    while "".join(block.text for block in sheet.blocks(session.transcript)) != f"agentfirstyou?agent{text}":
        assert sheet.is_behind
        times += 1
    assert not sheet.is_behind
    assert times > 2
