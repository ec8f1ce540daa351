"""`handrail check`: what is wrong with an agent at a URL, or with recordings, and what to do about it.

What needs httpx is imported where it is needed: a stream alone can be judged without.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import anyio
from rich.console import Console

from handrail.apps._check_report import Line, document, of_file, of_probe, of_probes, show
from handrail.apps._findings import Heard, Result, Wanted
from handrail.apps._judge import judge_stream
from handrail.apps._remote import is_url, loop_meant, shown_url, url_meant
from handrail.errors import UsageError

__all__ = ["check"]

_NOTHING = Wanted()


def check(targets: Sequence[str], wanted: Wanted = _NOTHING, *, as_json: bool) -> int:
    """Check an agent, or recordings ("-" is standard input), and print what was found: 1 if an error was, else 0.

    130 where Ctrl-C was pressed. Raises `UsageError` where there is nothing to check: nobody at the URL, a file that
    cannot be read.
    """
    console = Console(markup=False, emoji=False, highlight=False)
    try:
        if not any(is_url(target) for target in targets):
            if wanted != _NOTHING:
                options = "--message, --header, --timeout, --only and --tools"
                raise UsageError(f"{options} go with an http or https URL, which {targets[0]!r} is not.")
            return _check_files(targets, console, as_json=as_json)
        if len(targets) > 1:
            raise UsageError("An agent is checked by itself; give one URL, or any number of files.")
        return _check_agent(targets[0], wanted, console, as_json=as_json)
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"Only a bare stream is checked without {missing.name}: pip install 'handrail[client]'."
        ) from missing


def _check_agent(url: str, wanted: Wanted, console: Console, *, as_json: bool) -> int:
    from handrail.apps._check_agent import check_agent

    results: list[Result] = []

    def tell(result: Result) -> None:
        if not results and not as_json:
            show([Line(shown_url(url)), Line("")], console)
        results.append(result)
        if not as_json:
            show(of_probe(result), console)

    try:
        anyio.run(check_agent, url, wanted, tell)
    except KeyboardInterrupt:
        print("handrail: stopped by Ctrl-C; what is left was not checked", file=sys.stderr)
        return 130
    if as_json:
        print(document(results, "probe", url=shown_url(url)))
    else:
        show(of_probes(results), console)
    return _exit_code(results)


def _check_files(files: Sequence[str], console: Console, *, as_json: bool) -> int:
    results: list[Result] = []
    for file in files:
        heard = _heard_in(_content_of(file), file)
        results.append(Result(file, heard, [finding for one in heard for finding in one.findings]))
        if not as_json:
            show(of_file(results[-1], file if len(files) > 1 else None), console)
    if as_json:
        print(document(results, "file"))
    return _exit_code(results)


def _exit_code(results: Iterable[Result]) -> int:
    return 1 if any(result.status == "failed" for result in results) else 0


def _heard_in(content: bytes, name: str) -> Sequence[Heard]:
    if not _is_recording(content):
        return [judge_stream([content])]
    from handrail.apps._judge_take import judge_take
    from handrail.apps._tape import read_recording

    takes = read_recording(content, name)

    async def judged() -> Sequence[Heard]:
        return [await judge_take(take, run) for run, take in enumerate(takes)]

    return anyio.run(judged)


def _is_recording(content: bytes) -> bool:
    """Whether it is what `handrail record` writes, of any version, and not events alone."""
    try:
        first: Any = json.loads(content.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "format" in first


def _content_of(file: str) -> bytes:
    try:
        if file == "-":
            if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # so it is where it was closed
                raise UsageError("Standard input is closed; there is nothing to check.")
            return sys.stdin.buffer.read()
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        meant = url_meant(file) or loop_meant(file)
        raise UsageError(f"{file!r} cannot be read: {error.strerror}.{meant}") from error
