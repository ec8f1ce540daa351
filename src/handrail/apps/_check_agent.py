"""`handrail check URL`: the probes that are wanted, one after another, and what is told of them meanwhile."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from handrail.apps._bench import Bench
from handrail.apps._findings import Finding, Heard, Result, Wanted
from handrail.apps._load import load_tools
from handrail.apps._probes import LATER, PROBES, Plan
from handrail.apps._remote import concealed, headers_of, secrets_of
from handrail.errors import UsageError
from handrail.tools import catalogue

__all__ = ["check_agent"]

_TIMEOUT = 60.0
_QUIET_FOR = 1.0  # seconds before a probe is said to be going on


async def check_agent(url: str, wanted: Wanted, tell: Callable[[Result], object]) -> None:
    """Make the probes, and `tell` what came of each. Raises `UsageError` for what cannot be made, before the first."""
    headers = headers_of(wanted.headers)
    timeout = _TIMEOUT if wanted.timeout is None else wanted.timeout
    if not 0 < timeout < math.inf:
        raise UsageError(f"--timeout is {timeout:g}: it is a number of seconds above 0.")
    plans, is_hopeless = _plans(wanted), False
    async with Bench(url, headers, timeout) as bench:
        secrets = secrets_of(url, headers)
        for name, plan in plans.items():
            if is_hopeless:
                tell(Result(name, note="the plain run had no answer", apart="skipped"))
                continue
            with _progress(PROBES[name].does):
                result = await PROBES[name].go(bench, plan)
            tell(_without_secrets(result, secrets))
            is_hopeless = name == "run" and not any(heard.events for heard in result.heard)


def _plans(wanted: Wanted) -> Mapping[str, Plan]:
    """The probes that are wanted, in their order, and what each says."""
    if unknown := [name for name in wanted.only if name not in PROBES]:
        raise UsageError(f"There is no probe {unknown[0]!r}; --only takes {', '.join(PROBES)}.")
    tools = load_tools(wanted.tools) if wanted.tools else ()
    try:
        catalogue(tools)
    except (TypeError, ValueError) as refusal:
        raise UsageError(f"These tools cannot be used: {refusal}") from refusal
    plans: dict[str, Plan] = {}
    for name, probe in PROBES.items():
        if not wanted.only or name in wanted.only:
            has_own_words = name == "tool" and not wanted.only
            text = probe.says if wanted.message is None or has_own_words else wanted.message
            plans[name] = Plan(text, LATER if wanted.message is None else wanted.message, tools)
    return plans


@contextmanager
def _progress(what: str) -> Generator[None]:
    """Say on a terminal what is going on, where that takes longer than a moment."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    progress.add_task(what, total=None)
    later = threading.Timer(_QUIET_FOR, progress.start)
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        if progress.live.is_started:  # rich before 15 ends a line even where it has drawn none
            progress.stop()


def _without_secrets(result: Result, secrets: Sequence[str]) -> Result:
    """A result as it is told: nothing in it that an agent may have said repeats one of these."""

    def hidden(text: str | None) -> str | None:
        return text and concealed(text, secrets)

    def heard(one: Heard) -> Heard:
        verdict = replace(one.verdict, message=hidden(one.verdict.message), code=hidden(one.verdict.code))
        return replace(one, verdict=verdict, protocol_version=hidden(one.protocol_version))

    def found(one: Finding) -> Finding:
        message, advice = (concealed(text, secrets) for text in (one.message, one.advice))
        return replace(one, message=message, advice=advice, path=hidden(one.path))

    return replace(
        result,
        note=concealed(result.note, secrets),
        heard=[heard(one) for one in result.heard],
        findings=[found(one) for one in result.findings],
    )
