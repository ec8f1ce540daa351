"""`handrail check`: what is wrong with an agent at a URL, or with recorded streams, and what to do about it."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO

import anyio
from rich.console import Console

from handrail.apps._bench import Bench
from handrail.apps._check_report import Line, document, of_file, of_probe, of_probes, show
from handrail.apps._findings import Heard, Result
from handrail.apps._judge import judge_stream, judge_take
from handrail.apps._load import load_tools
from handrail.apps._probes import LATER, PROBES, Plan
from handrail.apps._remote import concealed, headers_of, is_url, shown_url
from handrail.apps._tape import is_recording, read_recording
from handrail.errors import UsageError

__all__ = ["Wanted", "check"]

_TIMEOUT = 60.0
_QUIET_FOR = 1.0  # seconds before a probe is said to be going on
_TICK = 0.5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for with a URL; None or () is what was not."""

    message: str | None = None
    headers: Sequence[str] = ()
    timeout: float | None = None
    only: Sequence[str] = ()
    tools: str | None = None


def check(targets: Sequence[str], wanted: Wanted | None = None, *, as_json: bool) -> int:
    """Check an agent, or recordings ("-" is standard input), and print what was found: 1 if an error was, else 0.

    Raises `UsageError` where there is nothing to check: nobody at the URL, a file that cannot be read.
    """
    wanted = wanted or Wanted()
    if not any(is_url(target) for target in targets):
        if wanted != Wanted():
            raise UsageError("--message, --header, --timeout, --only and --tools go with a URL, and not with a file.")
        return _check_files(targets, as_json=as_json)
    if len(targets) > 1:
        raise UsageError("An agent is checked by itself; give one URL, or any number of files.")
    return _check_agent(targets[0], wanted, as_json=as_json)


# -- recordings --------------------------------------------------------------------------------------------------------


def _check_files(files: Sequence[str], *, as_json: bool) -> int:
    console, results = Console(markup=False, emoji=False, highlight=False), list[Result]()
    for file in files:
        heard = anyio.run(_heard_in, _content_of(file), file)
        results.append(Result(file, heard, [finding for one in heard for finding in one.findings]))
        if not as_json:
            show(of_file(results[-1], file if len(files) > 1 else None), console)
    if as_json:
        print(document(results, "file"))
    return _exit_code(results)


async def _heard_in(content: bytes, name: str) -> Sequence[Heard]:
    if not is_recording(content):
        return [judge_stream([content])]
    return [await judge_take(take, run) for run, take in enumerate(read_recording(content, name))]


def _content_of(file: str) -> bytes:
    try:
        if file == "-":
            return sys.stdin.buffer.read()
        with open(file, "rb") as opened:
            return _read(opened)
    except OSError as error:
        meant = f"\nAn agent is named by its URL, as in http://{file}." if _looks_like_a_host(file) else ""
        raise UsageError(f"{file!r} cannot be read: {error.strerror}.{meant}") from error


def _read(opened: BinaryIO) -> bytes:
    return opened.read()


def _looks_like_a_host(file: str) -> bool:
    host, _, rest = file.partition(":")
    return bool(host) and "/" not in host and rest.partition("/")[0].isdigit()


# -- an agent ----------------------------------------------------------------------------------------------------------


def _check_agent(url: str, wanted: Wanted, *, as_json: bool) -> int:
    headers = headers_of(wanted.headers)
    timeout = _TIMEOUT if wanted.timeout is None else wanted.timeout
    if not 0 < timeout < math.inf:
        raise UsageError(f"--timeout is {timeout:g}: it is a number of seconds above 0.")
    plans = _plans(wanted)
    console = Console(markup=False, emoji=False, highlight=False)
    results: list[Result] = []

    def tell(result: Result) -> None:
        results.append(_without_secrets(result, lambda text: concealed(text, headers)))
        if not as_json:
            if len(results) == 1:
                show([Line(shown_url(url)), Line("")], console)
            show(of_probe(results[-1]), console)

    async def go() -> None:
        async with Bench(url, headers, timeout) as bench:
            await _probe_all(bench, plans, tell)

    try:
        anyio.run(go)
    except KeyboardInterrupt:
        print(f"handrail: stopped by Ctrl-C, after {len(results)} of {len(plans)} probes", file=sys.stderr)
        return 130
    if as_json:
        print(document(results, "probe", url=shown_url(url)))
    else:
        show(of_probes(results), console)
    return _exit_code(results)


def _plans(wanted: Wanted) -> dict[str, Plan]:
    """The probes that are wanted, in their order, and what each says."""
    if unknown := [name for name in wanted.only if name not in PROBES]:
        raise UsageError(f"There is no probe {unknown[0]!r}; --only takes {', '.join(PROBES)}.")
    tools = load_tools(wanted.tools) if wanted.tools else ()
    plans: dict[str, Plan] = {}
    for name, probe in PROBES.items():
        if not wanted.only or name in wanted.only:
            has_own_words = name == "tool" and not wanted.only
            text = probe.says if wanted.message is None or has_own_words else wanted.message
            plans[name] = Plan(text, LATER if wanted.message is None else wanted.message, tools)
    return plans


async def _probe_all(bench: Bench, plans: dict[str, Plan], tell: Callable[[Result], None]) -> None:
    is_hopeless = False
    for name, plan in plans.items():
        if is_hopeless:
            tell(Result(name, note="the plain run had no answer to go on from", apart="skipped"))
            continue
        async with _progress(PROBES[name].does):
            result = await PROBES[name].go(bench, plan)
        tell(result)
        is_hopeless = name == "run" and not any(heard.events for heard in result.heard)


@asynccontextmanager
async def _progress(what: str) -> AsyncGenerator[None]:
    """Say on a terminal what is going on, where that takes longer than a moment."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return

    async def tick() -> None:
        began = anyio.current_time()
        await anyio.sleep(_QUIET_FOR)
        with console.status(what) as status:
            while True:
                status.update(f"{what} … {anyio.current_time() - began:.0f} s")
                await anyio.sleep(_TICK)

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        yield
        group.cancel_scope.cancel()


def _without_secrets(result: Result, conceal: Callable[[str], str]) -> Result:
    """A result as it is told: no text in it repeats what must not be read."""
    findings = [replace(one, message=conceal(one.message), advice=conceal(one.advice)) for one in result.findings]
    heard = [
        replace(one, verdict=replace(one.verdict, message=conceal(one.verdict.message))) if one.verdict.message else one
        for one in result.heard
    ]
    return replace(result, heard=heard, findings=findings, note=conceal(result.note))


def _exit_code(results: Iterable[Result]) -> int:
    return 1 if any(result.status == "failed" for result in results) else 0
