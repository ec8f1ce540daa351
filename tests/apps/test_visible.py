"""What comes from a model is shown, never obeyed."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.apps._visible import clipped, one_line, spelled, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("safe\rover", r"safe\x0dover"),
        ("back\x08\x7f", r"back\x08\x7f"),
        ("user\u202egnp.exe", r"user\u202egnp.exe"),
        ("\u2066isolate\u2069", r"\u2066isolate\u2069"),
        ("a\u2028b", r"a\u2028b"),
        ("half \ud83d", r"half \ud83d"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("tag\U000e0041", r"tag\U000e0041"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["plain\n\ttext", "café ✓ 🚀", "👩‍👩‍👧", "שלום", "नमस्ते", "می‌خواهم", r"C:\x1b"])
def test_ordinary_text_of_any_language_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_line_ends_of_windows_are_line_ends() -> None:
    assert visible("a\r\nb") == "a\nb"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(st.characters(exclude_categories=())))
def test_no_control_character_ever_gets_through(text: str) -> None:
    shown = visible(text)
    kinds = {unicodedata.category(char) for char in shown if char not in "\n\t"}
    assert kinds.isdisjoint({"Cc", "Cs", "Zl", "Zp"})
    assert {unicodedata.bidirectional(char) for char in shown}.isdisjoint({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI"})
    assert visible(shown) == shown
    shown.encode()


def test_a_text_on_one_line_has_no_line_end() -> None:
    assert one_line(' {\n "city":\t"Bergen"\r\n}\x1b') == r'{ "city": "Bergen" }\x1b'


def test_a_long_text_says_how_much_is_missing() -> None:
    assert clipped("abc", 3) == "abc"
    assert clipped("a" * 1_503, 3) == "aaa… (1,500 more characters)"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (r'{"city": "Troms\u00f8"}', '{"city": "Tromsø"}'),
        (r'{"is": "\u4f60\u597d \ud83d\ude42"}', '{"is": "你好 🙂"}'),
        (r'{"path": "C:\\u00f8"}', r'{"path": "C:\\u00f8"}'),
        (r'{"path": "\\\u00f8"}', r'{"path": "\\ø"}'),
        (r'"\u0022 \u005c \u001b \ud800 \u202e"', r'"\u0022 \u005c \u001b \ud800 \u202e"'),
        (r'{"half": "\u00f', r'{"half": "\u00f'),
        ("no JSON", "no JSON"),
    ],
)
def test_letters_that_json_escaped_are_letters(arguments: str, shown: str) -> None:
    assert spelled(arguments) == shown


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(st.characters(exclude_categories=())))
def test_arguments_are_still_the_same_json(text: str) -> None:
    assert json.loads(spelled(json.dumps({text: text}))) == {text: text}
