"""The chat with running servers: keys in, a screen out, and everything on the wire between them judged."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ag_ui.core import Event
from tests.apps.chatting import screen, shows, until, write
from tests.live.kit import HELLO, KEEPS_NOTHING, SERVERS, Asking, Heard, Live, call_parts, on, servers_have_to_start
from textual.pilot import Pilot

from handrail import AgentSession, tool
from handrail.apps.chat._app import ChatApp
from handrail.apps.chat._composer import Composer

pytestmark = servers_have_to_start

SMALL, LARGE = (80, 24), (200, 50)
APPROVE, DENY = ("right",), ("right", "right")


@asynccontextmanager
async def chatting(
    live: Live, *tools: Callable[..., Any], size: tuple[int, int] = SMALL
) -> AsyncGenerator[tuple[ChatApp, Pilot[None]]]:
    """A chat with the server; at its end its whole thread is judged."""
    async with Asking(live.relay.url) as agent:
        agent.heard = list[Heard]()

        def listened_to(*given: Any, **options: Any) -> AgentSession:
            session = AgentSession(*given, **options)
            live.heard[session.thread_id] = heard = agent.heard

            def listen(event: Event) -> None:
                heard[-1].events.append(event)
                if event.type in ("RUN_FINISHED", "RUN_ERROR"):
                    heard[-1].messages = session.messages

            session.subscribe_events(listen)
            return session

        app = ChatApp(agent, title=live.peer, tools=tools, new_session=listened_to)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield app, pilot
        await app.session.aclose(5)
    live.judge(app.session.thread_id)


async def says(pilot: Pilot[None], text: str, *shown: str) -> None:
    """Say something, and wait for what is to be seen then."""
    await write(pilot, text)
    await shows(pilot, *shown)


async def chooses(pilot: Pilot[None], choice: str) -> None:
    """Go to a choice of the form with the arrows, and send it."""
    for _ in range(5):
        await pilot.press("right")
        await pilot.pause()
        if f"(•) {choice}" in screen(pilot.app):
            break
    await shows(pilot, f"(•) {choice}")
    await pilot.press("ctrl+s")


@on(*SERVERS)
@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_an_answer(live: Live, size: tuple[int, int]) -> None:
    async with chatting(live, size=size) as (_, pilot):
        await says(pilot, "text", HELLO, "✓ finished")


@on(*SERVERS)
async def test_a_tool_of_the_server(live: Live) -> None:
    async with chatting(live) as (app, pilot):
        await says(pilot, "tool", "get_weather  ✓ complete", "Paris", "18C in Paris", "✓ finished")
        assert [part.status for part in call_parts(app.session)] == ["complete"]


@on(*SERVERS)
@pytest.mark.parametrize("keys", [APPROVE, DENY], ids=["allowed", "refused"])
async def test_a_tool_of_this_side(live: Live, keys: tuple[str, ...]) -> None:
    """S-72: it runs with the person's consent, and without it the agent is told so."""
    calls: list[str] = []

    @tool(needs_approval=True)
    def get_location(accuracy: str) -> str:
        calls.append(accuracy)
        return "52.5,13.4"

    async with chatting(live, get_location) as (app, pilot):
        await says(pilot, "client-tool", "May the tool get_location be run")
        assert calls == []
        await pilot.press(*keys, "ctrl+s")
        await shows(pilot, "Done.", "✓ finished")
        [part] = call_parts(app.session)
    assert (part.status, calls) == (("complete", ["high"]) if keys == APPROVE else ("denied", []))


@on(*SERVERS)
@pytest.mark.parametrize(("choice", "status"), [("approve", "complete"), ("deny", "denied"), ("abandon", "denied")])
async def test_a_question(live: Live, choice: str, status: str) -> None:
    """S-83, S-89, S-104: asked in a form, answered with the keys, and the conversation goes on."""
    async with chatting(live) as (app, pilot):
        await says(pilot, "interrupt", "? waiting for your answer", "( ) approve")
        await chooses(pilot, choice)
        await until(pilot, lambda: not app.session.busy and not app.session.pending_interrupts)
        [part] = call_parts(app.session)
        assert part.status == status
        await says(pilot, "text", HELLO, "✓ finished")


@on(*KEEPS_NOTHING)
async def test_arguments_edited_in_the_form(live: Live) -> None:
    """S-90."""
    async with chatting(live) as (app, pilot):
        await says(pilot, "interrupt", "( ) edit")
        await pilot.press("right", "right", "right")
        await shows(pilot, "(•) edit", "/etc/motd")
        entry: Any = app.query_one(".entry")
        entry.text = '{"path": "/tmp/x"}'
        await pilot.press("ctrl+s")
        await shows(pilot, "deleted /tmp/x")
        await until(pilot, lambda: not app.session.busy)


@on(*SERVERS)
async def test_a_failure(live: Live) -> None:
    """S-29: what was said before it stays, and asking again says nothing twice."""
    async with chatting(live) as (app, pilot):
        await says(pilot, "error", "✗ failed", "Ctrl+R asks again")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(live.requests) == 2 and not app.session.busy)
        assert [message.text for message in app.session.transcript.messages if message.role == "user"] == ["error"]
    first, second = live.requests
    assert [m for m in second["messages"] if m["role"] == "user"] == [
        m for m in first["messages"] if m["role"] == "user"
    ]


@on(*KEEPS_NOTHING)
async def test_a_stop(live: Live) -> None:
    """S-43: at once, what waited comes back, and the next message is answered."""
    released = threading.Event()

    def held(answered: bytearray) -> int | None:
        if answered.count(b"TEXT_MESSAGE_CONTENT") > 2:
            released.wait(30)
        return None

    live.relay.cut = held
    async with chatting(live) as (app, pilot):
        await says(pilot, "slow", "Hello", "● running · Esc stops")
        await says(pilot, "text", "waits: text")
        await pilot.press("escape")
        await shows(pilot, "■ stopped")
        released.set()
        assert app.query_one(Composer).text == "text"
        await pilot.press("enter")
        await shows(pilot, HELLO, "✓ finished")
