"""The documentation is true as far as a machine can tell: its examples run, its links lead somewhere."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import trio
from docs import hooks, tables
from tests import pages
from tests.live.environments import Unavailable, python_of
from tests.pages import BLOCK, cell

from handrail import RunScope
from handrail.apps.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(?:#[^)]*)?\)")
TEST_NAME = re.compile(r"`(test_\w+)`")
SLOW = re.compile(r"backends\.openai|pydantic_ai|textual|range\(500\)")  # takes seconds to import, or to run
NEEDS_ASYNCIO = re.compile(r"asyncio|pydantic_ai|textual")
ENVIRONMENTS = {"agents": "openai-agents", "langgraph": "langgraph"}
"""Where an example runs that imports such a package; all others run here."""
SAID = re.compile(r"^ *#> ?(.*)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def environment_of(code: str) -> str | None:
    imported = re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE)
    return next((ENVIRONMENTS[name] for name in imported if name in ENVIRONMENTS), None)


def example(page: Path, number: int, block: re.Match[str]) -> object:
    slow = [pytest.mark.slow] if SLOW.search(block[1]) or environment_of(block[1]) else []
    return pytest.param(page, block[1], pages.line_of(page, block), id=f"{name_of(page)}-{number}", marks=slow)


BLOCKS = [(page, *found) for page in PAGES for found in enumerate(BLOCK.finditer(page.read_text()), 1)]
EXAMPLES = [example(*block) for block in BLOCKS if environment_of(block[2][1]) is None]
ELSEWHERE = [example(*block) for block in BLOCKS if environment_of(block[2][1]) is not None]
ON_TRIO = [
    example(page, number, block)
    for page, number, block in BLOCKS
    if inspect.iscoroutinefunction(cell(page, block[1], 0))
    and not NEEDS_ASYNCIO.search(block[1])
    and environment_of(block[1]) is None
]


@pytest.fixture(autouse=True)
def files_of_the_page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page has its reader save, an example beside it can import."""
    if "code" in request.fixturenames:
        for name, module in pages.modules(request.getfixturevalue("page")).items():
            monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(("page", "code", "line"), EXAMPLES)
def test_every_example_runs(page: Path, code: str, line: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each on its own, as a reader would paste it, and it prints what it says (`#>`) where it says so."""
    pages.run(cell(page, code, line))
    check_what_was_said(code, capsys.readouterr().out)


@pytest.fixture
def python(code: str) -> Path:
    """The interpreter of the environment that an example needs, which is made first if it is not there."""
    environment = environment_of(code)
    assert environment is not None
    try:
        return python_of(environment)
    except Unavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.mark.timeout(60, func_only=True)
@pytest.mark.parametrize(("page", "code", "line"), ELSEWHERE)
def test_every_example_with_another_framework_runs(page: Path, code: str, line: int, python: Path) -> None:
    """In an environment of its own, since nothing here depends on it; and it leaves nothing to complain of."""
    program = [str(python), pages.__file__, str(page), str(line)]
    ran = subprocess.run(program, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    check_what_was_said(code, ran.stdout)


@pytest.mark.parametrize(("page", "code", "line"), ON_TRIO)
def test_what_awaits_runs_on_trio_too(page: Path, code: str, line: int, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with RunScope():
            await cell(page, code, line)()

    trio.run(main)
    check_what_was_said(code, capsys.readouterr().out)


def check_what_was_said(code: str, said: str) -> None:
    expected = SAID.findall(code)
    assert not expected or said.splitlines() == expected


@pytest.mark.parametrize("page", tables.PAGES, ids=name_of)
def test_tables_of_the_code_are_as_the_code_has_them(page: Path) -> None:
    """To write them anew: `python docs/tables.py`."""
    assert tables.filled(page.read_text()) == page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    """A link to a test file names a test that is in it."""
    for text, target in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        path = (page.parent / target).resolve()
        assert path.exists(), f"{name_of(page)} links to {target}, which is not there"
        named = TEST_NAME.fullmatch(text)
        if named:
            assert named[1] in functions_of(path), f"{name_of(page)} names {named[1]}, which is not in {target}"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"^  - .+: (\w[\w-]*\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in tables.PAGES)


def test_links_that_leave_the_docs_do_not_break_the_site() -> None:
    page = "[`test_a`](../tests/test_a.py), [changes](../CHANGELOG.md), [why](decisions/README.md#why)"
    there = hooks.on_page_markdown(page, config={"repo_url": "https://example.org/handrail/"})
    blob = "https://example.org/handrail/blob/main"
    assert (
        there == f"[`test_a`]({blob}/tests/test_a.py), [changes]({blob}/CHANGELOG.md), [why](decisions/README.md#why)"
    )
    nowhere = hooks.on_page_markdown(page, config={"repo_url": None})
    assert nowhere == "`test_a`, changes, [why](decisions/README.md#why)"


def test_the_first_example_is_short_and_needs_no_key() -> None:
    first = BLOCK.search((ROOT / "README.md").read_text())
    assert first is not None
    assert len([line for line in first[1].splitlines() if line.strip()]) < 15
    assert "KEY" not in first[1].upper()


def test_the_agent_of_the_first_page_can_be_talked_to(tmp_path: Path) -> None:
    """Its file saved under the name it has, and the command typed as it stands there."""
    page = (ROOT / "docs" / "start.md").read_text()
    (file,) = (block for block in BLOCK.findall(page) if block.startswith("# agent.py\n"))
    (tmp_path / "agent.py").write_text(file)
    (typed,) = re.findall(r"^handrail (chat .* --once .*)$", page, re.MULTILINE)
    command = [sys.executable, "-m", "handrail", *shlex.split(typed)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Take an umbrella." in done.stdout


def test_every_guarantee_and_every_question_names_its_test() -> None:
    docs = ROOT / "docs"
    for page, title in (
        (ROOT / "README.md", "guarantee"),
        (docs / "guarantees.md", "guarantee"),
        (docs / "guarantees.md", "figure"),
        (docs / "spec-questions.md", "question"),
    ):
        rows = rows_of(page.read_text(), title)
        assert rows, f"{name_of(page)} has no table of {title}s"
        for row in rows:
            assert TEST_NAME.search(row), f"{name_of(page)}: no test is named in {row}"


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    headings = re.findall(r"^## .*", page, re.MULTILINE)
    described = [name for heading in headings for name in re.findall(r"`handrail (\w+)`", heading)]
    assert sorted(described) == sorted(command.name or command.callback.__name__ for command in app.registered_commands)


def test_the_readme_promises_nothing_that_is_not_among_the_guarantees() -> None:
    promised = {row.split("|")[1] for row in rows_of((ROOT / "README.md").read_text(), "guarantee")}
    assert promised <= {
        row.split("|")[1] for row in rows_of((ROOT / "docs" / "guarantees.md").read_text(), "guarantee")
    }


def rows_of(text: str, title: str) -> list[str]:
    """The rows of every table whose first heading holds `title`."""
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [row for table in tables if title in table.split("|")[1] for row in table.splitlines()[2:]]


@cache
def functions_of(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
