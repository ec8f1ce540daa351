"""What is measured, and what is demanded of it: the table.

Numbers of the targets are those of the project's performance rules (F-1 to F-17); they are not moved to where we are.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks._measure import Bound, Command, Measurement

__all__ = ["MEASUREMENTS"]

QUEUE, LOOP_FLOOR = "asyncio.Queue", "queue + task"
PEERS = ("pydantic-ai", "openai-agents", "agno")


def _handle() -> Iterable[Measurement]:
    for what, way, size in (
        ("emit to reader, all at once", "together", 20_000),
        ("emit to reader, a turn for each", "in-turn", 10_000),
    ):
        command = Command("project", "handle", (way,), size)
        yield Measurement("handle", "F-9", what, "us", (command,), floor=QUEUE)
    further = Command("project", "handle", ("further",), 10_000)
    yield Measurement("handle", "F-10", "each further reader", "us/event", (further,), (Bound(1, QUEUE),), QUEUE)
    deciles = Command("project", "handle", ("deciles",), 100_000)
    yield Measurement("handle", "F-5", "last tenth of 100,000 events to the first", "x", (deciles,))


def _runs(way: str, size: int, floor_size: int, peers: dict[str, int]) -> tuple[Command, ...]:
    """A way of `runs` in all frameworks: with sizes of their own, since they differ by a factor of a hundred."""
    floor = Command("project", "runs", (LOOP_FLOOR, way), floor_size)
    ours = Command("project", "runs", ("handrail", way), size)
    return (floor, ours, *(Command(peer, "runs", (peer, way), peers[peer]) for peer in peers))


def _loop() -> Iterable[Measurement]:
    sizes = dict.fromkeys(PEERS, 30)
    bounds = (Bound(15, LOOP_FLOOR), Bound(1, "agno"), Bound(1 / 5, "openai-agents"))
    yield Measurement("loop", "F-8", "one-token run", "us", _runs("one", 500, 3_000, sizes), bounds, LOOP_FLOOR)

    sizes = {"pydantic-ai": 2_000, "openai-agents": 5_000, "agno": 5_000}
    bounds = (Bound(4, LOOP_FLOOR), Bound(1 / 20, "pydantic-ai"))
    tokens = _runs("tokens", 10_000, 50_000, sizes)
    yield Measurement("loop", "F-9", "token to the reader", "us", tokens, bounds, LOOP_FLOOR)
    paced = _runs("paced", 10_000, 20_000, sizes)
    yield Measurement("loop", "F-9", "the same, a turn for each", "us", paced, (), LOOP_FLOOR)

    for count in (25, 200):
        rounds = _runs("rounds", count, 1_000, dict.fromkeys(PEERS, count // 5))
        yield Measurement(
            "loop", "F-11", f"tool round, of {count}; peers of {count // 5}", "us", rounds, (), LOOP_FLOOR
        )
    growth = (Command("project", "runs", ("handrail", "growth"), 200),)
    yield Measurement("loop", "F-11", "growth, 25 to 200 tool rounds", "exponent", growth, (Bound(1.1),))

    sizes = {"pydantic-ai": 100, "openai-agents": 200, "agno": 400}
    opened = _runs("open", 1_000, 1_000, sizes)
    yield Measurement("loop", "F-12", "open run", "KB", opened, (Bound(20),), LOOP_FLOOR)
    at_once = _runs("at-once", 1_000, 1_000, sizes)
    yield Measurement("loop", "F-12", "run of 20 tokens, 1,000 at once", "us", at_once, (), LOOP_FLOOR)


def _cancel() -> Iterable[Measurement]:
    cases = {
        "tool": "an async tool asleep",
        "stream": "a stream that stalls",
        "thread": "a blocking tool",
        "stubborn": "a tool that swallows it",
    }
    for case, what in cases.items():
        commands = (Command("project", "cancel", ("handrail", case), 50),)
        commands += tuple(Command(peer, "cancel", (peer, case), 1) for peer in ("pydantic-ai", "openai-agents"))
        words = f"cancel to result: {what}; left unsaid"
        yield Measurement("cancel", "F-13", words, "ms, p99", commands, (Bound(5),))


def _wire(way: str, *arguments: str, size: int) -> Command:
    return Command("wire", "wire", (way, *arguments), size)


CLIENTS = {"text": 10_000, "messages": 2_000, "calls": 1_000, "state": 2_000}
"""What the whole client is measured on: kind and size."""


def _frame() -> Iterable[Measurement]:
    for read, what in (("0", "an event a read"), ("1448", "reads of 1,448 bytes"), ("16384", "reads of 16 KB")):
        bounds = (Bound(1.5, "splitter"), Bound(1 / 2, "httpx-sse"))
        command = _wire("frame", read, "text", size=10_000)
        yield Measurement("wire", "F-1", f"frame, {what}", "us", (command,), bounds, "splitter")


def _client() -> Iterable[Measurement]:
    for kind, size in CLIENTS.items():
        bounds = (Bound(2.5, "split + orjson"), Bound(1.3, "ag_ui models"))
        command = _wire("decode", kind, size=size)
        yield Measurement("wire", "F-2", f"decode, {kind}", "us", (command,), bounds, "split + orjson")
    against = {"text": ("@ag-ui/client", 1 / 10), "calls": ("@ag-ui/client", 1 / 100)}
    for kind, size in CLIENTS.items():
        commands = [_wire("fold", kind, size=size), Command("node", "typescript.mjs", (kind,), size)]
        bounds = [Bound(5, "fold floor")]
        if kind in against:
            name, factor = against[kind]
            bounds.append(Bound(factor, name))
        if kind == "text":
            commands.append(Command("agent-framework", "agent_framework", (kind,), size))
            bounds.append(Bound(0.3, "AGUIChatClient"))
        yield Measurement("wire", "F-3", f"client, {kind}", "us", tuple(commands), tuple(bounds), "fold floor")
    for kind, size in (("text", 100_000), ("messages", 2_000), ("calls", 1_000)):
        command = _wire("growth", kind, size=size)
        yield Measurement("wire", "F-5", f"growth, {size:,} {kind}", "exponent", (command,), (Bound(1.05),))


def _rest_of_the_wire() -> Iterable[Measurement]:
    for rows, size in (("100", 5_000), ("1000", 5_000), ("100000", 5_000)):
        bounds = (Bound(5, "in-place walk"),)
        command = _wire("patch", rows, size=size)
        what = f"patch, {int(rows):,} rows"
        yield Measurement("wire", "F-6", what, "us", (command,), bounds, "in-place walk")
    for kind in ("text", "calls"):
        bounds = (Bound(3, "orjson.dumps"), Bound(1 / 7, "EventEncoder"))
        command = _wire("encode", kind, size=CLIENTS[kind])
        yield Measurement("wire", "F-7", f"encode, {kind}", "us", (command,), bounds, "orjson.dumps")


def _transcript() -> Iterable[Measurement]:
    for kind, size in CLIENTS.items():
        command = _wire("transcript", kind, size=size)
        what = f"client and transcript, {kind}"
        yield Measurement("transcript", "F-4", what, "us", (command,), (Bound(2, "without it"),), "without it")
    for what, way in (
        ("session: last tenth of 10,000 deltas to the first", "deciles"),
        ("session: a delta behind 2,000 messages to one behind 10", "threads"),
    ):
        command = Command("project", "session", (way,), 10_000)
        yield Measurement("transcript", "F-5", what, "x", (command,))


def _imports() -> Iterable[Measurement]:
    command = Command("project", "imports", size=10)
    yield Measurement("import", "F-16", "import handrail", "s", (command,), (Bound(0.3),))


def _server() -> Iterable[Measurement]:
    where = {"bytes": "wire", "handrail": "wire", "pydantic-ai": "pydantic-ai"}
    for clients in ("10", "100"):
        for way, what, bounds in (
            ("paced", "a turn for each", (Bound(2, "bytes"), Bound(1 / 8, "pydantic-ai"))),
            ("ready", "all at once", (Bound(1, "bytes"),)),
        ):
            sizes = {"bytes": 300, "handrail": 300, "pydantic-ai": 30}
            commands = tuple(
                Command(home, "server", ("load", name, way, clients), sizes[name]) for name, home in where.items()
            )
            words = f"server, {clients} clients, {what}"
            yield Measurement("server", "F-14", words, "us/event", commands, bounds, "bytes")
    sizes = {"bytes": 500, "handrail": 500, "pydantic-ai": 200}
    commands = tuple(Command(home, "server", ("idle", name, "held"), sizes[name]) for name, home in where.items())
    yield Measurement("server", "F-15", "open idle stream", "KB", commands, (Bound(50),), "bytes")


def _chat() -> Iterable[Measurement]:
    shapes = {
        "paragraph": "paragraphs",
        "list": "a list",
        "nested-list": "lists in lists",
        "quote": "quotes",
        "nested-quote": "quotes in quotes",
        "table": "a table",
        "code": "code",
        "mixed": "some of each",
    }
    for shape, what in shapes.items():
        command = Command("project", "chat", (shape,), 60)
        yield Measurement("chat", "F-17", f"key to screen, the worst; {what}", "ms", (command,), (Bound(100),))


MEASUREMENTS: tuple[Measurement, ...] = (
    *_handle(),
    *_loop(),
    *_cancel(),
    *_frame(),
    *_client(),
    *_rest_of_the_wire(),
    *_transcript(),
    *_server(),
    *_imports(),
    *_chat(),
)
