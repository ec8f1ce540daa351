"""Text that came in pieces: the halves of a character are one where they meet."""

from __future__ import annotations

import pytest

from handrail.agui._text import join, mend, whole


@pytest.mark.parametrize(
    ("pieces", "mended", "encodable"),
    [
        (["plain"], "plain", "plain"),
        ([], "", ""),
        (["é", "漢😀"], "é漢😀", "é漢😀"),
        (["a\ud83d", "\ude00b"], "a😀b", "a😀b"),
        (["\ud83d", "x", "\ude00"], "\ud83dx\ude00", "\ufffdx\ufffd"),
        (["\ud83d\ud83d", "\ude00\ude00"], "\ud83d😀\ude00", "\ufffd😀\ufffd"),
    ],
)
def test_halves_of_a_character(pieces: list[str], mended: str, encodable: str) -> None:
    """P-19: joined where they meet; one that stays alone is kept, and is U+FFFD in what any encoding takes."""
    assert join(pieces) == mend("".join(pieces)) == mended
    assert whole("".join(pieces)) == whole(mended) == encodable
    assert whole(mended).encode().decode() == encodable
