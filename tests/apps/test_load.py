"""A person's own tools, found by the name they type; what is wrong with a name is said in one or two lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from handrail.apps._load import load, load_tools
from handrail.errors import UsageError
from handrail.tools import Tool

MODULES = {
    "made_with_tool": "from handrail import tool\n@tool\ndef one(): ...\n@tool\ndef two(): ...\ndef no_tool(): ...\n",
    "lists_tools": "def one(): ...\ndef two(): ...\ntools = [two]\n",
    "divides_by_zero": "1 / 0\n",
    "just_leaves": "raise SystemExit(3)\n",
    "lacks_another": "import not_installed_anywhere\n",
    "has_a_typo": "def (:\n",
    "has_no_tools": "x = 1\n",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def names(found: object) -> list[str]:
    assert isinstance(found, (list, tuple))
    return [tool.name if isinstance(tool, Tool) else tool.__name__ for tool in found]


def test_a_module_gives_what_it_made_with_tool() -> None:
    assert names(load_tools("made_with_tool")) == ["one", "two"]


def test_a_list_called_tools_goes_before() -> None:
    assert names(load_tools("lists_tools")) == ["two"]


def test_an_attribute_is_a_tool_or_a_list_of_them() -> None:
    assert names(load_tools("made_with_tool:no_tool")) == ["no_tool"]
    assert names(load_tools("lists_tools:tools")) == ["two"]


def test_a_module_by_its_name() -> None:
    assert load("lists_tools") is sys.modules["lists_tools"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "There is no module 'nowhere'"),
        ("nowhere.at.all", "There is no module 'nowhere'"),
        ("lists_tools.inside", "There is no module 'lists_tools.inside'"),
        ("./lists_tools.py", "'./lists_tools.py' is a file; give the name of the module, 'lists_tools'"),
        ("lists_tools:lost", "The module 'lists_tools' has no 'lost'."),
        ("lists_tools:tool", "The module 'lists_tools' has no 'tool'. It has 'tools'."),
        ("lists_tools.tools", "It has a colon: lists_tools:tools."),
        ("lists_tools:", "'lists_tools:' names nothing in a module"),
        ("http://localhost:8000/", "'http://localhost:8000/' names nothing in a module"),
        ("divides_by_zero", "does not import: ZeroDivisionError: division by zero"),
        ("just_leaves", "does not import: SystemExit: 3"),
        ("lacks_another", "does not import: ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("has_a_typo", "does not import: SyntaxError: "),
        (":one", "':one' names no module"),
        ("", "'' names no module"),
        ("has_no_tools", "There are no tools in 'has_no_tools'"),
    ],
)
def test_what_cannot_be_loaded_is_explained(name: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_tools(name)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 2
