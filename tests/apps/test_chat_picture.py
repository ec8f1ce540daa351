"""The picture in README is the chat as it is."""

from __future__ import annotations

import html
import re

import pytest
from docs.picture import PICTURE, picture
from tests.conftest import ROOT


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def rows(svg: str) -> list[str]:
    """What can be read in a picture, row by row from the top."""
    found: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        found.setdefault(float(y), []).append((float(x), html.unescape(text)))
    return [" ".join(text for _, text in sorted(row)) for _, row in sorted(found.items())]


@pytest.mark.slow
async def test_the_picture_shows_the_chat_as_it_is() -> None:
    """To make it anew: `python -m docs.picture`."""
    assert rows(await picture()) == rows(PICTURE.read_text(encoding="utf-8"))


def test_readme_shows_the_picture() -> None:
    shown = PICTURE.relative_to(ROOT).as_posix()
    assert re.search(rf"!\[[^]]+\]\({re.escape(shown)}\)", (ROOT / "README.md").read_text(encoding="utf-8"))
