"""What breaks the rules one thing at a time: a change that changes nothing would count as a rule nobody tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.mutation.__main__ import LISTED, listed, mutants_of
from tests.mutation.mutants import mutated, mutations
from tests.mutation.paths import subjects
from tests.mutation.type_checker import TypeChecker


def changed(source: str) -> list[str]:
    """The source after each of its mutations."""
    results: list[str] = []
    for at, _ in enumerate(mutations(ast.parse(source))):
        tree = mutated(source, at)
        compile(tree, "module", "exec")
        results.append(ast.unparse(tree))
    return results


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a and b", ["x = a or b"]),
        ("x = {A: b, C: d}", ["x = {C: d}", "x = {A: b}"]),
        ("x = frozenset({A, B})", ["x = frozenset({B})", "x = frozenset({A})"]),
        ("x = {'k': 3}", ["x = {}", "x = {'k-': 3}", "x = {'k': 4}"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("if a:\n    f()", ["if not a:\n    f()", "if a:\n    pass"]),
        (
            "try:\n    f()\nexcept E:\n    raise",
            ["try:\n    pass\nexcept E:\n    raise", "try:\n    f()\nexcept E:\n    pass"],
        ),
        (
            "match a:\n    case 1:\n        f()",
            ["match a:\n    case 2:\n        f()", "match a:\n    case 1:\n        pass"],
        ),
        ("x.y = a + b", ["pass", "x.y = a - b"]),
        ("x = True", ["x = False"]),
        ("x = a if b else c", ["x = a if not b else c"]),
    ],
)
def test_one_thing_is_wrong_in_each(source: str, expected: list[str]) -> None:
    """Each kind of change, written out."""
    assert changed(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Documentation."""',
        "from a import b",
        "Kind = Literal['a', 'b']",
        "Owner = str | None",
        "__all__ = ['a', 'b']",
        "x: Literal['a']",
        "raise_ = f'{a} is wrong'",
        "text = 'a sentence of words'",
    ],
)
def test_what_no_test_should_notice_is_left_alone(source: str) -> None:
    """Names of types, documentation and wording."""
    assert changed(source) == []


@pytest.mark.parametrize("file", subjects(), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_mutant_differs_from_the_module(file: Path) -> None:
    """Also on the real modules: a mutation that is none would survive every test."""
    source = file.read_text()
    plain = ast.dump(mutated(source, None))
    found = list(mutations(ast.parse(source)))
    for at in range(0, len(found), max(1, len(found) // 3)):
        assert ast.dump(mutated(source, at)) != plain, found[at].what


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_type_checker_notices_what_breaks_a_promise_and_nothing_else(tmp_path: Path) -> None:
    """A function that gives None where it says bool; not the file as it is, though what silences it there is lost."""
    (file,) = (file for file in subjects() if file.name == "_interrupts.py")
    planted = [
        one.number for one in mutants_of(file) if one.where == "is_expired" and one.what.endswith("-> return None")
    ]
    types = TypeChecker(tmp_path)
    assert [types.notices(file, number) for number in (*planted, None)] == [True, False]


def test_what_is_listed_exists() -> None:
    """A reason given for a line that is no longer there is out of date."""
    names = {mutant.name for file in subjects() for mutant in mutants_of(file)}
    assert listed() <= names, f"in {LISTED.name} and nowhere else: {sorted(listed() - names)}"
