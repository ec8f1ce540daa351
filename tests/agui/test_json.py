"""JSON of the wire: what is refused, what is kept, and what excerpts show."""

from __future__ import annotations

import inspect
import json
import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort

from handrail.agui._json import MAX_DEPTH, decode_utf8, encode_json, encode_text, excerpt, is_doubtful, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@effort(150)
@given(VALUES, st.booleans())
def test_any_json_value_is_read_as_it_was_written(value: Any, ensure_ascii: bool) -> None:
    """P-16: escaped or raw, indented or not, the value is the same."""
    for indent in (None, 1):
        assert parse_json(json.dumps(value, ensure_ascii=ensure_ascii, indent=indent).encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "[DONE]",
        "",
        " ",
        "{",
        '{"a":1',
        '{"a":1}{"b":2}',
        '{"a":1} x',
        "{'a':1}",
        '{"a":1,}',
        '{"a":01}',
        '"\n"',
        "nul",
        "{]",
    ],
)
def test_what_is_not_one_value_is_refused(text: str) -> None:
    """P-16: one JSON value and nothing else."""
    with pytest.raises(ValueError, match=r"."):
        parse_json(text.encode())


@pytest.mark.parametrize(
    "number",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "1E+400",
        "1.5e0999",
        "1" * 310 + ".0",
        "1" * 250 + "e99",
        "0." + "1" * 300 + "e999",
        "9" * 5000,
    ],
)
@pytest.mark.parametrize("shape", ['{"a":%s}', "[%s]", '{"a":[1,{"b": %s }]}', '["\\ud83d", %s]'])
def test_numbers_no_other_peer_reads_are_refused(shape: str, number: str) -> None:
    """P-16: NaN, Infinity, and whatever overflows, at any depth, also beside a lone half of a surrogate pair."""
    with pytest.raises(ValueError, match=r"."):
        parse_json((shape % number).encode())


@pytest.mark.parametrize("number", ["1e308", "1e-999", "123456789012345678901234567890", "-0.0", "1.0e00000000000003"])
def test_large_and_small_numbers_are_read(number: str) -> None:
    """P-16: only what overflows is refused, and what looks like it inside a string is text."""
    value = parse_json(f"[{number}]".encode())[0]
    assert value == json.loads(number)
    assert math.isfinite(value)
    assert parse_json(b'["a,1e999", ":1e999"]') == ["a,1e999", ":1e999"]


@pytest.mark.parametrize("half", ["", '"\\ud83d",'])
def test_nesting_deeper_than_200_is_refused(half: str) -> None:
    """P-16: 200 levels are read and 201 are not, by either parser; brackets in strings are no levels."""

    def nested(levels: int) -> bytes:
        return (
            ("[" + half).encode()
            + b'{"a":[' * ((levels - 1) // 2)
            + b"[" * ((levels - 1) % 2)
            + (b"]" * ((levels - 1) % 2) + b"]}" * ((levels - 1) // 2) + b"]")
        )

    for levels in (MAX_DEPTH - 1, MAX_DEPTH):
        parse_json(nested(levels))
    for levels in (MAX_DEPTH + 1, MAX_DEPTH + 2, 100_000):
        with pytest.raises(ValueError, match="200 levels"):
            parse_json(nested(levels))
    assert parse_json(b'["' + b"[{" * 300 + b'\\"["]') == ["[{" * 300 + '"[']


def test_of_a_key_given_twice_the_last_stands() -> None:
    """P-16: for both parsers."""
    assert parse_json(b'{"a":1,"a":2}') == {"a": 2}
    assert parse_json(b'{"a":"\\ud83d","a":2}') == {"a": 2}


def test_halves_of_a_surrogate_pair_are_kept_and_encoded() -> None:
    """P-19: read as they are, joined where they meet, U+FFFD where one stays alone when encoded."""
    assert parse_json(b'["ok \\ud83d", "\\ude00 done"]') == ["ok \ud83d", "\ude00 done"]
    assert parse_json(b'["\\ud83d\\ude00"]') == ["😀"]
    assert encode_text("ok \ud83d" + "\ude00 done") == "ok 😀 done".encode()
    assert encode_text("a\ud83db\ude00") == "a�b�".encode()
    assert json.loads(encode_json({"\ud83d": ["\ude00", "é"]})) == {"�": ["�", "é"]}


@effort(150)
@given(st.text(st.characters()) | st.lists(st.sampled_from(["\ud83d", "\ude00", "a", "é", "😀"])).map("".join))
def test_every_text_can_be_encoded(text: str) -> None:
    """P-19: nothing raises; what was no half of anything is unchanged."""
    encoded = encode_text(text).decode()
    assert json.loads(encode_json(text)) == encoded
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert encoded == text


def test_bytes_that_are_no_utf8_are_mended() -> None:
    """P-10: an invalid sequence is U+FFFD, and it is said that there was one."""
    assert decode_utf8("é".encode()) == ("é".encode(), False)
    assert decode_utf8(b"a\xffb\xc3") == ("a�b�".encode(), True)
    assert decode_utf8(b"\xed\xa0\xbd") == ("���".encode(), True)


def test_an_excerpt_is_short_and_printable() -> None:
    """P-5, P-21: at most 200 characters, of bytes, of text and of values however large or odd."""
    for value in (
        b"\xff" * 10_000,
        "x" * 10_000,
        {"a": ["x" * 10_000] * 100},
        {1: object(), (2,): "\ud83d"},
        "\n\ud83d",
    ):
        shown = excerpt(value)
        assert shown.isprintable()
        assert len(shown) <= 200
    assert excerpt({"type": "X", "a": [1, None]}) == '{"type": "X", "a": [1, null]}'
    endless: list[Any] = []
    endless.append(endless)
    assert excerpt(endless).startswith("[[[")


def test_what_json_cannot_hold_is_not_encoded() -> None:
    """P-25: NaN and objects of Python raise where they are encoded."""
    for value in (math.nan, {"a": math.inf}, object()):
        with pytest.raises((ValueError, TypeError)):
            encode_json(value)


@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"k":', "}")])
def test_depth_counts_also_where_a_half_character_takes_the_slower_parser(open_: str, close: str) -> None:
    """P-16, P-19: nesting is what is open at once; brackets in strings and values side by side are none."""
    half = '"\\ud83d [[[{{{"'
    inner = f"[{half}, {'[], {}, ' * MAX_DEPTH}0]"  # two levels, and many of them

    def nested(levels: int) -> bytes:
        return (open_ * levels + inner + close * levels).encode()

    parse_json(nested(MAX_DEPTH - 2))
    with pytest.raises(ValueError, match="nested"):
        parse_json(nested(MAX_DEPTH - 1))


@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 2 * MAX_DEPTH, 3 * MAX_DEPTH])
def test_short_text_may_be_deep_too(levels: int) -> None:
    """P-16: nothing but brackets, for either parser, and for the question whether another would take it."""
    fits = levels <= MAX_DEPTH
    for inner in (b"", b'"\\ud83d"'):
        text = b"[" * levels + inner + b"]" * levels
        if fits:
            parse_json(text)
        else:
            with pytest.raises(ValueError, match=r"levels|depth|recursion|nested"):
                parse_json(text)
    assert is_doubtful(b"[" * levels + b"]" * levels) is not fits
    assert is_doubtful(b'{"a":' * levels + b"1" + b"}" * levels) is not fits


@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        (b'{"a": 1}', False),
        (b'{"a": NaN}', True),
        (b'{"a": -Infinity}', True),
        (b'{"a": 1e999}', True),
        (b"[" + b"[]," * 300 + b"1]", False),
        (b"[" + b"[]," * 300 + b"}", True),
    ],
)
def test_what_another_parser_may_take(text: bytes, doubtful: bool) -> None:
    """P-16: brackets side by side are no depth; what is no JSON is in doubt."""
    assert is_doubtful(text) is doubtful


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": "é", 1: None}, '{"a": "é", "1": null}'),
        ("a\nb", "a\\nb"),
        ("x\ud83d", "x\\ud83d"),
        (b"a\xffb\x00", "a\ufffdb\\x00"),
        ("é" * 300, "é" * 200),
        ("é".encode() * 300, "é" * 200),
        (["é" * 300], '["' + "é" * 198),
        (5, "5"),
    ],
)
def test_what_an_excerpt_shows(value: object, shown: str) -> None:
    """P-5, P-21: what was there, from its beginning; what cannot be printed by its escape."""
    assert excerpt(value) == shown


def test_what_is_too_deep_for_the_stack_of_a_call_is_refused() -> None:
    """P-16: the slower parser stands on the caller's stack, and says so where that does not suffice."""
    text = b"[" * 150 + b'"\\ud83d"' + b"]" * 150
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        found: Any = parse_json(text)
    except ValueError as refused:
        found = str(refused)
    finally:
        sys.setrecursionlimit(before)
    # an interpreter may have another limit for what is compiled
    assert str(found) in ("nested too deep for the stack of this call", "[" * 150 + repr("\ud83d") + "]" * 150)
