"""An AG-UI endpoint behind uvicorn in a process of its own, asked by clients in this one.

    server load APP CLIENTS REQUESTS      CPU microseconds of the server for each event, 200 tokens a request
    server idle APP STREAMS               KB of the server for each of so many streams that are open and say nothing
    server serve APP PORT                 the server itself

Apps: `NAME ready` has all tokens at once, `NAME paced` gives the loop a turn for each, `NAME held` stops behind five.
`bytes` is the floor: frames that were made before, each sent by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

from benchmarks.programs.clock import say
from benchmarks.programs.frameworks import FRAMEWORKS, Script
from benchmarks.programs.scripts import body

TOKENS = 200
TICKS = os.sysconf("SC_CLK_TCK")


def app(name: str, way: str) -> Any:
    script = Script(tokens=TOKENS, paced=way == "paced")
    if way == "held":
        script = Script(tokens=10, hold=asyncio.Event())
    if name == "bytes":
        return frames(script)
    agent: Any = FRAMEWORKS[name]().agent(script)
    if name == "handrail":
        from handrail.server import agui_app

        return agui_app(agent)
    from pydantic_ai.ui.ag_ui import AGUIAdapter
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return Starlette(routes=[Route("/", answer, methods=["POST"])])


def frames(script: Script) -> Any:
    """One send for each event, and nothing else."""
    lines = [line + b"\n\n" for line in body("text", TOKENS).split(b"\n\n") if line]

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": lines[0] + lines[1], "more_body": True})
        tokens = script.text()
        for line in lines[2:-2]:
            await anext(tokens)
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": lines[-2] + lines[-1]})

    return answer


def serve(name: str, way: str, port: str) -> None:
    import uvicorn

    uvicorn.run(app(name, way), host="127.0.0.1", port=int(port), log_level="error", access_log=False, backlog=1024)


async def ask(port: int, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    payload = {"threadId": f"t-{number}", "runId": f"r-{number}", "state": {}, "tools": [], "context": []}
    payload |= {"messages": [{"id": "u", "role": "user", "content": "hi"}], "forwardedProps": {}}
    data = json.dumps(payload).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
    writer.write(f"{head}accept: text/event-stream\r\nconnection: close\r\n\r\n".encode() + data)
    return reader, writer


async def load(port: int, pid: int, clients: int, requests: int) -> float:
    left = iter(range(requests))
    events = 0

    async def client() -> None:
        nonlocal events
        for number in left:
            reader, writer = await ask(port, number)
            said = await reader.read(-1)
            writer.close()
            if b"RUN_FINISHED" not in said:
                raise RuntimeError(said[-400:].decode())
            events += said.count(b"data: ")

    left = iter(range(requests, requests + clients * 2))
    await asyncio.gather(*(client() for _ in range(clients)))
    left, events = iter(range(requests)), 0
    before = cpu(pid)
    await asyncio.gather(*(client() for _ in range(clients)))
    return (cpu(pid) - before) / events * 1e6


async def idle(port: int, pid: int, streams: int) -> float:
    held: list[Any] = []

    async def opened(number: int) -> None:
        reader, writer = await ask(port, number)
        await reader.readuntil(b"TEXT_MESSAGE_CONTENT")
        held.append((reader, writer))

    await asyncio.gather(*(opened(number) for number in range(20)))
    before = resident(pid)
    for start in range(20, streams + 20, 50):
        await asyncio.gather(*(opened(number) for number in range(start, min(start + 50, streams + 20))))
    await asyncio.sleep(0.5)
    return (resident(pid) - before) / streams / 1024


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has taken."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(what: str, name: str, way: str, *sizes: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = [sys.executable, "-m", "benchmarks.programs.server", "serve", name, way, str(port)]
    with subprocess.Popen(line, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(port)
            work = {"load": load, "idle": idle}[what]
            say({name: asyncio.run(work(port, server.pid, *map(int, sizes)))})
        finally:
            server.kill()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    way, *arguments = sys.argv[1:]
    serve(*arguments) if way == "serve" else main(way, *arguments)
