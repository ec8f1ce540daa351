"""The chat: a screen on an `AgentSession`, and nothing else.

Everything about the conversation is asked of the session: what is drawn is its transcript, the questions are its
pending ones, a retry is its `run()`. The app itself keeps only what a person did and the session does not know: the
messages that wait, the consents that its tools wait for, and when the exchange began.

Drawing has its own pace. The session publishes with every event; the screen takes the latest transcript at most twenty
times a second, rests for twice as long as drawing took, and begins when what was typed has been seen: so a key waits
for one redraw at most, however fast the agent is.
"""

from __future__ import annotations

import time
from asyncio import sleep
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from ag_ui.core import Event, Interrupt
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.dom import NoScreen
from textual.events import Key, Paste
from textual.widget import MountError
from textual.widgets import Footer, Markdown, Static

from handrail.agui._interrupts import Answer
from handrail.agui._warnings import WarningRecord
from handrail.apps._load import AnyTool
from handrail.apps._visible import clipped, one_line, visible
from handrail.apps.chat import _keep
from handrail.apps.chat._commands import command_in, help_text
from handrail.apps.chat._composer import Composer
from handrail.apps.chat._consents import Consents
from handrail.apps.chat._conversation import Conversation
from handrail.apps.chat._form import arguments_on_screen
from handrail.apps.chat._garbage import collect_if_due
from handrail.apps.chat._page import Page
from handrail.apps.chat._questions import Questions
from handrail.apps.chat._sheet import Sheet
from handrail.apps.chat._status import Meter, Standing, still_running, tolerated, verdict, went_wrong
from handrail.client import Agent, AgentSession
from handrail.transcript import RunState

__all__ = ["ChatApp", "Opening"]

Opening: TypeAlias = Callable[[AgentSession], Awaitable[RunState]]
"""What a chat begins with, instead of waiting for the person to speak."""

_BETWEEN_DRAWINGS = 0.05  # seconds
_BETWEEN_LOOKS = 0.5  # seconds; at the clock, and at what is still running


class ChatApp(App[None]):
    """Chats with `agent`; `title` names it. `tools` run on this side, each call after the person's consent."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "#composer"  # from the first key on: what is typed while the chat comes up must not get lost
    CSS_PATH = "chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", priority=True),
        Binding("ctrl+r", "retry", "Again", show=False),
        Binding("ctrl+y", "copy", "Copy", priority=True),
        Binding("pageup", "scroll(-1)", "Scroll", key_display="PgUp/Dn", priority=True),
        Binding("pagedown", "scroll(1)", show=False, priority=True),
        Binding("ctrl+end", "follow", show=False, priority=True),
        Binding("ctrl+t", "toggle_theme", show=False),
        Binding("f1", "help", "Help"),
        Binding("ctrl+q", "leave", "Quit", priority=True),
    ]

    def __init__(
        self,
        agent: Agent,
        *,
        title: str,
        tools: Sequence[AnyTool] = (),
        opening: Opening | None = None,
        new_session: Callable[..., AgentSession] = AgentSession,
    ) -> None:
        super().__init__()
        self._agent, self._tools, self._opening = agent, tools, opening
        self._name = one_line(clipped(title, 60))
        self._conversation = Conversation()
        self._questions = Questions()
        self._queue = Static(markup=False, id="waiting")
        self._status = Static(markup=False, id="status")
        self._composer = Composer()
        self._waiting: deque[str] = deque()
        self._consents = Consents()
        self._meter: Meter | None = None
        self._began = self._took = 0.0
        self._is_stopping = False
        self.left_at_work = False  # whether a run was going on when the person left
        self._sheet = Sheet()
        self.session = self._watched(new_session(agent, tools=tools, ask=self._ask, on_warning=self._warned))

    # -- the screen ------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static(f"handrail chat · {self._name}", markup=False, id="title")
        yield self._conversation
        yield self._questions
        yield self._queue
        yield self._status
        yield self._composer
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self._status.set_interval(_BETWEEN_LOOKS, self._look)
        self._look()
        self._begin_drawing()
        if self._opening is not None:
            self._exchange(partial(self._opening, self.session))

    def _watched(self, session: AgentSession) -> AgentSession:
        session.subscribe_events(self._heard)
        return session

    def _begin_drawing(self) -> None:
        self.run_worker(self._draw(self.session, self._sheet), group="drawing", exclusive=True)

    async def _draw(self, session: AgentSession, sheet: Sheet) -> None:
        async for _ in session.changes():
            is_drawn = False
            while not is_drawn:
                await self._composer.seen()
                if await collect_if_due():
                    continue
                blocks = sheet.blocks(session.transcript)
                while sheet.is_behind:
                    await sleep(0)
                    blocks = sheet.blocks(session.transcript)
                began = time.monotonic()
                try:
                    is_drawn = await self._conversation.show(blocks)
                    await self._show_questions()
                    self._look()
                except (MountError, NoMatches, NoScreen):
                    if self.is_running:
                        raise
                    return  # the person left in the middle of it
                took = time.monotonic() - began
                await sleep(max(_BETWEEN_DRAWINGS, 2 * took) if is_drawn else _BETWEEN_DRAWINGS)

    def _look(self) -> None:
        """Draw what is not of the transcript: how things stand, and what waits."""
        session = self.session
        line = self._standing()
        facts = [line.text, self._used(), still_running(session.still_running()), tolerated(len(session.warnings))]
        self._status.update(" · ".join(filter(None, facts)))
        self._status.set_classes(line.mood)
        self._queue.display = bool(self._waiting)
        self._queue.update("\n".join(f"waits: {one_line(clipped(text, 200))}" for text in self._waiting))

    def _standing(self) -> Standing:
        session = self.session
        if self._is_stopping:
            return Standing("■ stopping…", "waiting")
        if session.busy:
            return Standing("● running · Esc stops", "busy")
        line = verdict(session.transcript.run, session.pending_interrupts)
        if not self._can_retry:
            return line
        owed = ", with your answers" if session.owed_answers else ""
        return Standing(f"{line.text} · Ctrl+R asks again{owed}", line.mood)

    def _used(self) -> str:
        """What the exchange used up; what it will have used up is not known before its end."""
        if self._meter is None:
            return ""
        return f"{time.monotonic() - self._began:.0f} s" if self.session.busy else self._meter.read(self._took)

    async def _show_questions(self) -> None:
        session = self.session
        asked = self._consents.asked if session.busy else session.pending_interrupts
        arguments: Mapping[str, str] = arguments_on_screen(session.transcript) if asked else {}
        had_any = self._questions.display
        await self._questions.ask(asked, arguments)
        if had_any and not asked:
            self._composer.focus()

    # -- what the session tells ------------------------------------------------------------------------------------

    def _heard(self, event: Event) -> None:
        if self._meter is not None:
            self._meter.note(event)

    def _warned(self, record: WarningRecord) -> None:
        """The session keeps its warnings; the status line counts them."""

    async def _ask(self, interrupt: Interrupt) -> Answer:
        """A tool on this side wants to run: ask the person, and wait as long as they need."""
        try:
            with self._consents.asking(interrupt) as answered:
                await self._show_questions()
                return await answered
        finally:
            self.call_later(self._show_questions)

    # -- exchanges -------------------------------------------------------------------------------------------------

    def _exchange(self, call: Callable[[], Awaitable[RunState]], said: str = "") -> None:
        self._meter = Meter()
        self._began = time.monotonic()
        self._is_stopping = False
        self._conversation.follow()
        self.run_worker(self._run(call, said), group="exchange")

    async def _run(self, call: Callable[[], Awaitable[RunState]], said: str) -> None:
        try:
            state = await call()
        except Exception as refusal:  # a wrong call raises before it changes anything, and the person is told why
            self._settle()
            self._questions.complain(str(refusal))
            self._complain(str(refusal))
            self._composer.give_back(said)
        else:
            self._settle()
            self._go_on(state)

    def _settle(self) -> None:
        self._took = time.monotonic() - self._began
        self._is_stopping = False
        self._look()
        self.call_later(self._show_questions)

    def _go_on(self, state: RunState) -> None:
        """Send what waits, if the answer before it came; else give it back to whoever wrote it."""
        self._mark(state)
        if went_wrong(state):
            self._give_back()
        elif self._waiting and not self.session.pending_interrupts:
            self._send(self._waiting.popleft())

    def _mark(self, state: RunState) -> None:
        """Have a run that went wrong be told from others also when the next one has begun."""
        self._sheet.ended(self.session.transcript, verdict(state).text if went_wrong(state) else "")

    def _send(self, text: str) -> None:
        self._exchange(partial(self.session.send, text), said=text)

    def _give_back(self) -> None:
        if self._waiting:
            self._composer.give_back("\n".join(self._waiting))
            self._waiting.clear()
        self._look()

    # -- what the person does --------------------------------------------------------------------------------------

    @on(Composer.Sent)
    def said(self, event: Composer.Sent) -> None:
        """A message, or a command; empty lines around it are no part of it."""
        text = event.text.strip("\n")
        try:
            found = command_in(text)
        except ValueError as problem:
            self._composer.give_back(event.text)
            self._complain(str(problem))
            return
        if found is not None:
            command, argument = found
            getattr(self, f"action_{command.action}")(*([argument] if argument else []))
            return
        text = text.removeprefix("/") if text.startswith("//") else text
        if self._is_engaged or self.session.pending_interrupts:
            self._waiting.append(text)
            self._look()
        else:
            self._send(text)

    @on(Key)
    @on(Paste)
    def written_elsewhere(self, event: Key | Paste) -> None:
        """What nothing on the screen took: written while a card has the focus, it belongs to the message."""
        if not isinstance(self.screen, Page):
            self._composer.take(event)

    @on(Questions.Decided)
    def decided(self, event: Questions.Decided) -> None:
        """All open questions have their answers."""
        if self._consents:
            self._consents.answer(event.answers)
        else:
            self._exchange(partial(self.session.resume, event.answers))

    @on(Markdown.LinkClicked)
    def followed(self, event: Markdown.LinkClicked) -> None:
        """Say where a link leads, and take it along."""
        self.copy_to_clipboard(event.href)
        self._tell(f"Copied the link {event.href}")

    @property
    def _is_engaged(self) -> bool:
        """Whether a call is under way, also one that has not reached the session yet."""
        return any(worker.group == "exchange" and not worker.is_finished for worker in self.workers)

    @property
    def _can_retry(self) -> bool:
        """Whether the last run ended so that it can be asked for again as it was."""
        session = self.session
        return bool(session.owed_answers) or (went_wrong(session.transcript.run) and not session.pending_interrupts)

    def action_stop(self) -> None:
        if isinstance(self.screen, Page):
            self.screen.dismiss(None)
        elif self.session.busy:
            self._is_stopping = True
            self._look()
            self.session.stop()
        elif self._waiting:
            self._give_back()
        else:
            self._composer.focus()

    def action_retry(self) -> None:
        if self._is_engaged:
            self._complain("A run is going on; Esc stops it.")
        elif self._can_retry:
            self._exchange(self.session.run)
        else:
            self._complain("There is nothing to ask again: the last run did not fail.")

    def action_abandon(self) -> None:
        if self._is_engaged:
            self._complain("A run is going on; Esc stops it.")
        elif dropped := self.session.abandon_interrupts():
            self._tell(f"{len(dropped)} given up on this side; the next message goes without an answer to them.")
            self.call_later(self._show_questions)
        else:
            self._complain("There is no open question to give up.")

    def action_copy(self, number: str = "1") -> None:
        answers = [one.text for one in self.session.transcript.messages if one.role == "assistant" and one.text]
        if not number.isdecimal() or not 0 < int(number) <= len(answers):
            self._complain(f"There is no answer {one_line(number)} to copy; there are {len(answers)}.")
            return
        text = answers[-int(number)]
        self.copy_to_clipboard(text.encode(errors="replace").decode())
        self._tell(f"Copied {len(text):,} characters.")

    def action_save(self, name: str) -> None:
        try:
            path = _keep.write(name, self.session.dump())
        except (OSError, ValueError) as problem:
            self._complain(f"Not saved: {problem}")
        else:
            self._tell(f"Saved in {path}.")

    def action_open(self, name: str) -> None:
        if self._is_engaged:
            self._complain("A run is going on; Esc stops it.")
            return
        try:
            loaded = AgentSession.load(
                self._agent, _keep.read(name), tools=self._tools, ask=self._ask, on_warning=self._warned
            )
        except (OSError, ValueError) as problem:
            self._complain(f"Not opened: {problem}")
            return
        self._waiting.clear()
        self._meter, self._sheet = None, Sheet()
        self.session = self._watched(loaded)
        self._mark(loaded.transcript.run)
        self._conversation.follow()
        self._begin_drawing()

    def action_warnings(self) -> None:
        told = [f"{record.code}: {record.message}" for record in self.session.warnings]
        self.push_screen(Page("What was tolerated", clipped("\n".join(told), 50_000) or "Nothing so far."))

    def action_help(self) -> None:
        if not isinstance(self.screen, Page):
            self.push_screen(Page("Keys and commands", help_text()))

    def action_toggle_theme(self) -> None:
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_scroll(self, pages: int) -> None:
        scrolled = self.screen.query_one("#page, #conversation", VerticalScroll)
        (scrolled.scroll_page_up if pages < 0 else scrolled.scroll_page_down)(animate=False)

    def action_follow(self) -> None:
        self._conversation.follow()

    def action_leave(self) -> None:
        self.left_at_work = self.session.busy
        self.session.stop()
        self.exit()

    def _tell(self, text: str) -> None:
        self.notify(visible(clipped(text, 500)), markup=False, timeout=4)

    def _complain(self, text: str) -> None:
        self.notify(visible(clipped(text, 500)), severity="error", markup=False, timeout=8)
