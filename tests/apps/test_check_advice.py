"""The advice of `handrail check`: something on everything that the rules find, and all of it on the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tests.conftest import ROOT

from handrail import agui
from handrail.agui._verdict import Verdict
from handrail.apps._advice import advice_for
from handrail.apps._check_report import document
from handrail.apps._findings import Finding, Heard, Result
from handrail.apps._probes import PROBES
from handrail.run import Spend

RULES = Path(agui.__file__).parent
OUTBOUND = {"P-25", "P-85", "outgoing"}
"""What is only said about what goes out."""


def test_there_is_advice_on_everything_that_the_rules_find() -> None:
    source = "".join(file.read_text() for file in RULES.glob("*.py"))
    codes = set(re.findall(r'"(P-\d+)"', source)) | set(re.findall(r'(?:WarningRecord|_warn)\(\s*"([a-z-]+)"', source))
    assert {"P-24", "P-39", "unknown-event", "second-result"} <= codes
    assert [code for code in sorted(codes - OUTBOUND) if not advice_for(code)] == []


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    one = Heard(
        1, 1, Verdict("t", "r", "error", "agent", "m", "c"), (), 200, "r", 1, 1, "1.0", Spend(1, 1.0, True, None, 1, 1)
    )
    finding = Finding("error", "code", "message", "advice", 0, 0, "/path")
    whole = json.loads(document([Result("run", [one], [finding], "note")], "probe", url="http://a"))
    assert sorted(set(keys_of(whole)) - set(re.findall(r"`(\w+)`", page))) == []
    assert [name for name in PROBES if f"| `{name}` |" not in page] == []


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            yield key
            yield from keys_of(member)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from keys_of(member)
