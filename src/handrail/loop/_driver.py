"""What every part of a run in progress uses: its driver, its clock, its news, its children."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from os import urandom
from typing import Any, ClassVar, NoReturn, TypeVar

from ag_ui.core import UserMessage

from handrail.events import LogLevel, RunEvent
from handrail.loop._clock import Clock, wait_for
from handrail.loop._drafts import Log
from handrail.loop._end import End
from handrail.loop._steering import Steers
from handrail.run import Run, RunDriver
from handrail.run._child import Child
from handrail.run._loops import Children, cancelled_class
from handrail.run._raised import is_for_host
from handrail.run._settled import when_set
from handrail.run._threads import Ended, start_thread_in
from handrail.run._waiters import Waiters
from handrail.tools import awaited, dropped

__all__ = ["LoopDriver", "LoopRun", "random_id"]

T = TypeVar("T")

_logger = logging.getLogger("handrail.loop")


def random_id() -> str:
    """The text of a uuid4. Only the text is wanted, and the class costs four times as much."""
    h = urandom(16).hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{'89ab'[int(h[16], 16) & 3]}{h[17:20]}-{h[20:]}"


async def _failed(error: Exception) -> NoReturn:
    raise error


class LoopRun(Run[RunEvent]):
    """The handle on a run of a `Loop`: a `Run` that can also be steered."""

    __slots__ = ("_new_id", "_steers")

    _steers: Steers
    _new_id: Callable[[], str]

    def steer(self, message: str | UserMessage) -> bool:
        """Give the run a user turn for its next round. Any thread; never waits.

        True: the text will be in the conversation. False: the run had already decided to end. Raises `TypeError` or
        `ValueError` for what is neither a user message nor a string with something in it.
        """
        if isinstance(message, str):
            if not message:
                raise ValueError("steer() takes a text with something in it")
            message = UserMessage(id=self._new_id(), content=message)
        if not isinstance(message, UserMessage):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise TypeError(f"steer() takes a string or a user message, not {type(message).__name__}")
        return self._steers.put(message.model_copy(deep=True))


class LoopDriver(RunDriver[RunEvent]):
    """The driver of one run of a loop.

    `news` is rung when something has ended or the run is called off (`is_called_off`: somebody cancelled). `children`
    are the streams and tools, so that leaving them waits for each and a cancellation from outside reaches them. A
    `casualty` is what a child raised to end more than itself (KeyboardInterrupt, for one): it goes to the host.
    """

    __slots__ = (
        "casualty",
        "children",
        "clock",
        "emit",
        "epilogue",
        "is_called_off",
        "monotonic",
        "new_id",
        "news",
        "now",
        "started_at",
        "steers",
    )

    handle: ClassVar[type[Run[Any]]] = LoopRun
    run: LoopRun  # pyright: ignore[reportIncompatibleVariableOverride]  # `handle` makes it one
    children: Children

    def __init__(self, *, run_id: str | None, clock: Clock, new_id: Callable[[], str]) -> None:
        self.new_id = new_id
        self.news = Waiters()
        super().__init__(run_id=self.new_id() if run_id is None else run_id, on_cancel=self._call_off)
        self.emit = self._core.emit  # the same, without a call in between: it is asked for every token
        self.clock = clock
        self.now: Callable[[], datetime] = clock.now
        self.monotonic: Callable[[], float] = clock.monotonic
        self.started_at = clock.monotonic()
        self.is_called_off = False
        self.casualty: BaseException | None = None
        self.steers = Steers()
        self.epilogue: Callable[[End], None] | None = None
        self.run._steers = self.steers  # pyright: ignore[reportPrivateUsage]  # the other face of the same run
        self.run._new_id = self.new_id  # pyright: ignore[reportPrivateUsage]

    @property
    def wall_clock(self) -> float:
        """Seconds since the run started."""
        return self.monotonic() - self.started_at

    @property
    def is_at_home(self) -> bool:
        """Whether the calling thread is running the loop of this run; False once that loop was closed."""
        return self.home is not None and self.home.is_here()

    @property
    def has_children(self) -> bool:
        """Whether anything is still working beside the run's own section."""
        return len(self._core.sections) > 1

    def finish(self, terminal: RunEvent | None, *, error: str | None = None, **parts: Any) -> bool:
        """As in `RunDriver`. A host that has to end the run itself gets the epilogue of the run all the same."""
        if self._core.ended is not None:
            return False
        if terminal is None and self.epilogue is not None:
            epilogue, self.epilogue = self.epilogue, None
            try:
                epilogue(End(how=parts["outcome"], error=error or ""))
            except Exception:  # a clock or an id that raises there as well must not leave the run without an end
                _logger.exception("run %s: its epilogue raised", self.run.id)
        self.epilogue = None
        return self._core.ended is not None or super().finish(terminal, error=error, **parts)

    def log(self, level: LogLevel, data: str) -> None:
        """A remark of the loop itself."""
        self.emit(Log(ts=self.now(), level=level, data=data, logger="handrail.loop"))

    async def wait(self, true: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until `true()` or the run is called off, but no longer than `seconds`. Raises the `casualty`."""
        await wait_for(self.news, lambda: self.is_called_off or true(), self.clock, seconds)
        if self.casualty is not None:
            raise self.casualty

    def _call_off(self) -> None:
        self.is_called_off = True
        self.news.wake_all()

    def start(self, work: Callable[[], Awaitable[T]], name: str) -> Child[T]:
        """Run something in a task of the run's group, as a work section."""
        return Child(self.children, work, name=name, section=self.work(name), on_end=self._hear)

    def _hear(self, ended: Ended[Any]) -> None:
        error = ended.error
        if error is not None and is_for_host(error):
            self.casualty = error
        self._ring(ended)

    def _ring(self, ended: Ended[Any]) -> None:
        self.news.wake_all()

    def start_in_thread(
        self, fn: Callable[[], Any], name: str, rest: Callable[[Any], Awaitable[Any]] = awaited
    ) -> Child[Any]:
        """Run something that may block in a thread of its own; the section is open until the thread returns.

        The child follows the thread, and then does the `rest` with what it returned. Given up, it leaves the thread
        behind.
        """
        try:
            thread = start_thread_in(self.work(name), fn)
        except RuntimeError as none_left:  # by the limit of the machine, or at the exit of the interpreter
            return self.start(partial(_failed, none_left), name)

        async def follow() -> Any:
            try:
                value = (await thread).unwrap()
            except cancelled_class():
                when_set(thread, lambda: dropped(thread.value.value))
                raise
            with self.work(name):
                return await rest(value)

        return Child(self.children, follow, name=name, section=nullcontext(), on_end=self._ring)

    async def in_thread(self, fn: Callable[[], T], name: str) -> T:
        """The same for something that a child waits for itself."""
        return (await start_thread_in(self.work(name), fn)).unwrap()
