"""The command line as a whole: its help on a terminal of 80 columns, and texts with nothing in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from handrail.apps.cli import app

COMMANDS = ["run", "demo", "check", "serve", "chat", "record", "replay"]


def help_of(*command: str) -> str:
    done = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    return done.output


def test_the_short_form_asks_for_help_too() -> None:
    assert CliRunner().invoke(app, ["check", "-h"]).output == CliRunner().invoke(app, ["check", "--help"]).output


def test_every_command_is_described_in_a_whole_sentence() -> None:
    """Typer cuts what does not fit beside the name."""
    described = help_of().partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in described] == COMMANDS
    assert all(line.endswith(".") and not line.endswith("..") for line in described)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_and_begins_with_that_sentence(command: str) -> None:
    whole = help_of(command)
    sentence = next(line for line in help_of().splitlines() if line.split()[:1] == [command]).split(maxsplit=1)[1]
    assert sentence in whole
    assert max(map(len, whole.splitlines())) <= 80


@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["chat", "--once"], "--once"),
        (["record", "http://127.0.0.1:9/", "tape", "--once"], "--once"),
        (["check", "http://127.0.0.1:9/", "--message"], "--message"),
        (["run", "--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"], "TEXT"),
    ],
)
def test_nothing_is_no_message(
    arguments: list[str], where: str, blank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*arguments, blank])
    assert (done.exit_code, done.output) == (2, f"handrail: {where} is empty; write what is to be said.\n")
    assert not list(tmp_path.iterdir())
