"""What a stream costs, in counts that no load can move: sends, turns of the event loop, tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import anyio
from tests.agui.counting import calls
from tests.server.kit import Endpoint, Visit, asking, frames_of

from handrail import FinishDelta, Loop, RunScope, TextDelta
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, gate, text


class Bursts:
    """A model that says its tokens in bursts of so many, each ready together."""

    model = "bursts"
    max_tokens = None

    def __init__(self, tokens: int, burst: int) -> None:
        self._left = tokens
        self._burst = burst

    def stream(self, request: Any) -> Any:
        return self

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: Any) -> None: ...

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        if self._left < 0:
            raise StopAsyncIteration
        if self._left % self._burst == 0:
            for _ in range(5):  # a pause in which everything that is ready can go out
                await asyncio.sleep(0)
        self._left -= 1
        return TextDelta("word ") if self._left >= 0 else FinishDelta("stop")


def on_asyncio(play: Any) -> Any:
    """Run an async function of an endpoint's group."""

    async def main() -> Any:
        async with RunScope(), anyio.create_task_group() as group:
            return await play(group)

    return asyncio.run(main())


def answered(app: Any) -> Visit:
    async def play(group: Any) -> Visit:
        return await Endpoint(app, group).post().over()

    return on_asyncio(play)


def test_frames_that_are_ready_together_go_out_in_one_send() -> None:
    """F-14: a burst costs one send, however many tokens are in it."""
    sends: dict[int, int] = {}
    for burst in (1, 20, 200):
        visit = answered(agui_app(Loop([Bursts(200, burst)])))
        assert visit.types.count("TEXT_MESSAGE_CONTENT") == 200
        sends[burst] = len(visit.bodies)
    assert sends[1] <= 200 + 4
    assert sends[20] <= 10 + 4
    assert sends[200] <= 1 + 4


def test_calls_for_a_token() -> None:
    """F-14: Python calls for a token on its way from the model into a send, and no more for a later one."""

    def made(tokens: int, burst: int) -> int:
        app = agui_app(Loop([Bursts(tokens, burst)]))
        return calls(lambda: answered(app), "call")

    made(100, 1000)
    few, more, many = (made(tokens, 1000) for tokens in (100, 300, 500))
    assert many - more == more - few
    assert (more - few) / 200 <= 7


def test_a_large_heap_goes_out_in_pieces() -> None:
    """P-95: what a reader gets that comes late is not made one huge piece of, and no frame is cut."""

    async def play(group: Any) -> Visit:
        endpoint = Endpoint(agui_app(Loop([ScriptedBackend([text(*["x" * 1000] * 1000)])])), group)
        await endpoint.post().over()
        return await endpoint.get("/runs/r1/events").over()

    late = on_asyncio(play)
    assert len(frames_of(late.body)) == 1004
    assert max(map(len, late.bodies)) <= 64 * 1024
    assert 15 <= len(late.bodies) <= 40
    assert all(body.endswith(b"\n\n") for body in late.bodies)


class Turns:
    """Counts the turns of the event loop, and is a clock that shows them."""

    def __init__(self) -> None:
        self.turn = 0

    def start(self) -> None:
        self.turn += 1
        asyncio.get_running_loop().call_soon(self.start)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.turn, UTC)

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float, /) -> Coroutine[Any, Any, None]:
        return anyio.sleep(seconds)


def test_no_frame_waits_longer_than_a_turn() -> None:
    """F-14: what was said in one turn of the event loop is sent in the next at the latest."""
    turns = Turns()
    said: list[int] = []
    sent: list[int] = []

    class Kept(Loop):
        def run(self, *args: Any, **options: Any) -> Any:
            run = super().run(*args, **options)
            self.runs = [run]
            return run

    async def play(group: Any) -> None:
        turns.start()
        loop = Kept([Bursts(60, 3)], clock=turns)
        visit = Endpoint(agui_app(loop, keepalive=None), group).post()

        seen = visit._tell

        def tell() -> None:
            sent.extend([turns.turn] * (visit.types.count("TEXT_MESSAGE_CONTENT") - len(sent)))
            seen()

        visit._tell = tell  # type: ignore[method-assign]
        await visit.over()
        said.extend(int(event.ts.timestamp()) for event in loop.runs[0].events.so_far() if event.kind == "token")

    on_asyncio(play)
    assert len(said) == len(sent) == 60
    assert max(after - before for before, after in zip(said, sent, strict=True)) <= 1


def test_an_open_stream_has_three_tasks() -> None:
    """F-15, F-12: the server's own for the request, and the two of the run."""

    async def play(group: Any) -> None:
        gates = [gate() for _ in range(20)]
        endpoint = Endpoint(agui_app(Loop([ScriptedBackend([[text("a"), held] for held in gates])])), group)
        before = len(asyncio.all_tasks())
        visits = [endpoint.post(asking(run_id=f"r{n}", thread_id=f"t{n}")) for n in range(20)]
        for held in gates:
            await held.reached
        for visit in visits:
            await visit.until(lambda visit=visit: visit.text() == "a")
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) - before == 3 * 20
        for held in gates:
            held.open()
        for visit in visits:
            await visit.over()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == before

    on_asyncio(play)
