"""The command line: `handrail run`, `demo`, `chat`, `serve`, `record`, `replay` and `check`.

A command's own module is imported when the command runs, so that `--help` and a mistyped option answer at once. Exit
codes are those of the run (0 completed, 1 failed, 130 cancelled), and 2 for a command that cannot be carried out.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, NoReturn

from handrail import __version__
from handrail.apps._visible import visible
from handrail.errors import UsageError

try:
    import typer
except ModuleNotFoundError as _missing:
    print(f"handrail: the command line needs {_missing.name}: pip install 'handrail[cli]'", file=sys.stderr)
    raise SystemExit(2) from None

__all__ = ["app", "exit_code", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Write JSON lines for programs.")]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'NAME: VALUE'", help="A header for every request; may be given again."),
]
Once = Annotated[str | None, typer.Option("--once", metavar="TEXT", help="Say this, print the answer.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"handrail {__version__}")
        raise typer.Exit


@app.callback()
def handrail(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The handle on an agent run: watch it, cancel it, and know how it ended."""


@app.command()
def run(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say to the model.")],
    model: Annotated[str, typer.Option(metavar="openai:NAME", help="The model.")],
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="OPENAI_BASE_URL", help="Any server that speaks the API of OpenAI."),
    ] = None,
    header: Headers = None,
    tools: Annotated[
        str | None,
        typer.Option(metavar="MODULE", help="A Python module; what it made with @tool, or lists in `tools`."),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a model and its tools, and show everything as it happens. Ctrl-C cancels; a second one leaves.

    Exits with 0 when the run completed, 1 when it failed, 130 when it was cancelled, 2 when it could not start.
    """

    def command() -> int:
        from handrail.apps._run import run

        return run(
            _something(text, "TEXT"), model=model, base_url=base_url, headers=header or (), tools=tools, as_json=as_json
        )

    raise typer.Exit(exit_code(command, debug))


@app.command()
def demo(as_json: Json = False, debug: Debug = False) -> None:
    """Watch a scripted agent: no key, no network.

    There are two rounds, a tool, and a sentence that breaks off and is retracted.
    """

    def command() -> int:
        from handrail.apps._demo import demo

        return demo(as_json=as_json)

    raise typer.Exit(exit_code(command, debug))


@app.command()
def check(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="URL|FILE",
            help='An agent, or recordings: of `record`, SSE or JSON lines; "-" is standard input.',
        ),
    ],
    message: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What is said; to the probe of tools only where --only names it.")
    ] = None,
    header: Headers = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long an answer may take; 60 if not given.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="PROBE", help="Make this probe and no other; may be given again.")
    ] = None,
    tools: Annotated[
        str | None, typer.Option(metavar="MODULE", help="Tools to offer and run in place of a harmless one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document for programs.")] = False,
    debug: Debug = False,
) -> None:
    """Say what is wrong with an AG-UI agent or a recording, and where.

    Runs and events are counted from 0. An agent is probed: run, history, tool, interrupt, disconnect, bad-request.
    Questions of it are answered with no.

    Exits with 0 when no error was found, warnings or not, 1 when one was, 2 when there is nothing to check. A plain
    run that failed is no error when the agent says so as the protocol wants it.
    """

    def command() -> int:
        from handrail.apps._check import check
        from handrail.apps._findings import Wanted

        said = None if message is None else _something(message, "--message")
        wanted = Wanted(said, tuple(header or ()), timeout, tuple(only or ()), tools)
        return check(targets, wanted, as_json=as_json)

    raise typer.Exit(exit_code(command, debug))


@app.command()
def serve(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:LOOP", help="A Loop, a function (input, principal) that returns one, or an agui_app."
        ),
    ],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    path: Annotated[str, typer.Option(metavar="PATH", help="Where the agent is.")] = "/",
    debug: Debug = False,
) -> None:
    """Serve a loop as an AG-UI agent. Ctrl-C stops: active runs are cancelled, and their clients are told so.

    Exits with 0 when it was stopped, 2 when it could not start.
    """

    def command() -> int:
        from handrail.apps._serve import serve

        return serve(target, host=host, port=port, path=path)

    raise typer.Exit(exit_code(command, debug))


@app.command()
def chat(
    agent: Annotated[
        str, typer.Argument(metavar="URL|MODULE:LOOP", help="Whom to talk to: a loop is named as for `serve`.")
    ] = "demo",
    header: Headers = None,
    tools: Annotated[
        str | None, typer.Option(metavar="MODULE", help="Tools to run here, each call after your consent.")
    ] = None,
    once: Once = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --once: the events as JSON lines.")] = False,
    debug: Debug = False,
) -> None:
    """Talk to an AG-UI agent at a URL, or to a loop in a module.

    Without either, to a scripted one. With --once no terminal is needed; it exits with 0 when the run finished, 1 when
    it failed, 130 when it was stopped.
    """

    def command() -> int:
        from handrail.apps.chat._command import command

        text = None if once is None else _something(once, "--once")
        return command(agent, headers=header or (), tools=tools, text=text, as_json=as_json)

    raise typer.Exit(exit_code(command, debug))


@app.command()
def record(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the agent is.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="A new file for the recording.")],
    header: Headers = None,
    once: Once = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --once: the events as JSON lines.")] = False,
    debug: Debug = False,
) -> None:
    """Chat with an agent, and keep every byte for `handrail replay`.

    The whole conversation is in the file, and no header or address.
    """

    def command() -> int:
        from handrail.apps._replay import record

        text = None if once is None else _something(once, "--once")
        return record(url, file, headers=header or (), text=text, as_json=as_json)

    raise typer.Exit(exit_code(command, debug))


@app.command()
def replay(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A recording, an event stream, or AG-UI events as JSON lines.")
    ],
    speed: Annotated[
        float, typer.Option(metavar="FACTOR", help="How many times as fast as it was; 0 is at once.")
    ] = 1.0,
    as_text: Annotated[bool, typer.Option("--text", help="Print it, also where there is a terminal.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Play a recording again, through the same checks.

    It is played in the chat, or as text where there is no terminal. As text it exits with 0 when the last run
    finished, 1 when it failed, 130 when it was stopped.
    """

    def command() -> int:
        from handrail.apps._replay import replay

        return replay(file, speed=speed, as_text=as_text, as_json=as_json)

    raise typer.Exit(exit_code(command, debug))


def main() -> NoReturn:
    """What the installed command and `python -m handrail` call."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot print "→" gets "\\u2192"
    app(prog_name="handrail")
    raise AssertionError("a typer application exits")


def _something(text: str, where: str) -> str:
    """A text that is to be said. Raises `UsageError` where nothing is in it: the chat does not send that either."""
    if not text.strip():
        raise UsageError(f"{where} is empty; write what is to be said.")
    return text


def exit_code(command: Callable[[], int], debug: bool) -> int:
    """Run `command` for its exit code; what goes wrong is said in one or two lines and has a code too."""
    try:
        code = command()
    except KeyboardInterrupt:  # there is no run yet: what the command needs was still being imported
        typer.echo("handrail: cancelled by Ctrl-C, before the run had started", err=True)
        code = 130
    except BrokenPipeError:
        code = 1
    except Exception as error:  # whatever it is, a person gets a sentence and not a traceback
        code = _explain(error)
        if debug:
            traceback.print_exc()
    _let_go_of_output()
    return code


def _explain(error: Exception) -> int:
    if isinstance(error, UsageError):
        typer.echo(f"handrail: {visible(str(error))}", err=True)
        return 2
    typer.echo(f"handrail: {type(error).__name__}: {visible(str(error))}\n--debug shows the traceback.", err=True)
    return 1


def _let_go_of_output() -> None:
    """Flush, now that a complaint can be dealt with: if the reader has gone, the rest goes nowhere, and quietly."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
