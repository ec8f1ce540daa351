"""Credentials in the text of an exception: what is hidden, what stays, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.tools import error_message, error_text
from handrail.tools._credentials import HIDDEN, SHAPES, without_credentials

ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.s1-gn_a"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKC\nAQEA1x==\n-----END RSA PRIVATE KEY-----"

HIDES = {
    f"could not load {PEM} of the server": "could not load [hidden] of the server",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNza": "[hidden]",
    "401 for https://joe:pw@models.example/v1?x=1": "401 for https://[hidden]@models.example/v1?x=1",
    "postgres://u:p@ss!w0rd@db:5432/app is down": "postgres://[hidden]@db:5432/app is down",
    "https://ghost@host": "https://[hidden]@host",
    "Authorization: Bearer abc was refused": "Authorization: Bearer [hidden] was refused",
    "{'Authorization': 'Basic am9lOnB3', 'Accept': '*/*'}": "{'Authorization': 'Basic [hidden]', 'Accept': '*/*'}",
    "proxy-authorization: x\nnext line": "proxy-authorization: [hidden]\nnext line",
    "'authorization': 'Digest username=\"joe\", response=\"6629\"'}": "'authorization': 'Digest [hidden]'}",
    "401 for /v1?api_key=abc&page=2": "401 for /v1?api_key=[hidden]&page=2",
    '{"api-key": "a b", "n": 1}': '{"api-key": "[hidden]", "n": 1}',
    '{"password": "a\\"b", "n": 1}': '{"password": "[hidden]", "n": 1}',
    "connect(user='joe', password='it\\'s', port=1)": "connect(user='joe', password='[hidden]', port=1)",
    "passwd=b'abc' pwd = x": "passwd=b'[hidden]' pwd = [hidden]",
    '"{\\"secret\\": \\"it\'s\\", \\"n\\": 1}"': '"{\\"secret\\": \\"[hidden]\\", \\"n\\": 1}"',
    "OPENAI_API_KEY=zzz, clientSecret => yyy": "OPENAI_API_KEY=[hidden], clientSecret => [hidden]",
    "token: abc; refresh_token=def": "token: [hidden]; refresh_token=[hidden]",
    "DOMAIN password=a\\b\\n": "DOMAIN password=[hidden]\\n",
    'password="never closed': 'password="[hidden]"',
    "AccountKey=Zm9v==;EndpointSuffix=x": "AccountKey=[hidden];EndpointSuffix=x",
    "sent Bearer a1b2c3d4e5": "sent Bearer [hidden]",
    "sent basic dXNlcjpwYXNz.": "sent basic [hidden].",
    "BEARER 0Bearer a1b2c3d4e5, basic 12345678Basic dXNlcjpwYXNz": "BEARER [hidden], basic [hidden]",
    f"bad token {JWT} here": "bad token [hidden] here",
    "incorrect key sk-live-0123456789, see": "incorrect key [hidden], see",
    "sk-ant-api03-aB_c-dEFghijklmnopqrstuv!": "[hidden]!",
    "pk-0123456789ab rk-0123456789ab": "[hidden] [hidden]",
    "sk-secret, sk-SECRET-KEY and sk-live-abc123": "[hidden], [hidden] and [hidden]",
    "404 for /v1?page=2&key=abc&n=1#end": "404 for /v1?page=2&key=[hidden]&n=1#end",
    "sk_test_0123456789": "[hidden]",
    "ghp_0123456789abcdef github_pat_0123456789abcdef": "[hidden] [hidden]",
    "xoxb-12-34-abcdef": "[hidden]",
    "AKIAIOSFODNN7EXAMPLE/us-east-1": "[hidden]/us-east-1",
    "key AIzaSyA-0123456789_abcdefghijklmnopqrs is bad": "key [hidden] is bad",
    "hf_abcdefghijklmnopqrst": "[hidden]",
}

STAYS = [
    "",
    "no such file: '/srv/app/keys.py'",
    "KeyError: 'token'",
    "The password is too short, and the key does not fit the lock.",
    "The token was rejected by the key server; passwords have at least 8 characters.",
    "Basic authentication failed. Bearer tokens are not accepted here.",
    "bearer authentication is required for internationalization",
    "max_tokens=4096 is above the limit of 2048 tokens; total_tokens: 1200",
    "Unexpected token: }",
    "password=None, token: null, api_key='', secret=false",
    "task-force-2024-report-final.pdf, risk-assessment-2024-12-31.csv, desk-research.md",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "2026-11-30T14:45:00Z 3.14159 1e-12 0xDEADBEEF +49 30 1234567",
    "http://localhost:8000/items/12?after=2026-01-01#top",
    "mail to joe@example.org or see https://example.org/@joe",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "division by zero",
    "invalid literal for int() with base 10: 'abc'",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "xoxo-hugs-and-kisses",
    "sk-learn has no locale sk-SK; key=value",
]

TEXTS = st.text(max_size=40)
KEYS = st.integers(0, 2**64).map(lambda seed: "".join(Random(seed).choices(ALNUM, k=24 + seed % 37)))
WITH_A_KEY: dict[str, Callable[[str], str]] = {
    "sk-": lambda key: f"sk-{key}",
    "sk-ant-api03-": lambda key: f"sk-ant-api03-{key}",
    "sk_live_": lambda key: f"sk_live_{key}",
    "rk-": lambda key: f"rk-{key}",
    "ghp_": lambda key: f"ghp_{key}",
    "github_pat_": lambda key: f"github_pat_{key}",
    "xoxb-": lambda key: f"xoxb-1{key}",
    "AKIA": lambda key: f"AKIA{key[:16].upper()}",
    "AIza": lambda key: f"AIza{key}",
    "hf_": lambda key: f"hf_{key}",
    "jwt": lambda key: f"eyJ{key}.{key[:9]}.{key[9:]}",
    "bearer": lambda key: f"Bearer {key}",
    "basic": lambda key: f"Basic {key}",
    "authorization": lambda key: f"Authorization: {key}",
    "query": lambda key: f"?api_key={key}",
    "json": lambda key: f'"client_secret": "{key}"',
    "escaped json": lambda key: f'\\"client_secret\\": \\"{key}\\"',
    "repr": lambda key: f"'password': '{key}'",
    "plain": lambda key: f"token: {key}",
    "url": lambda key: f"https://user:{key}@host",
    "pem": lambda key: f"-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----",
}


@pytest.mark.parametrize("text", HIDES)
def test_hidden(text: str) -> None:
    """L-86, P-91: a credential goes, and what is round it stays readable; told twice it reads the same."""
    assert without_credentials(text) == HIDES[text]
    assert without_credentials(HIDES[text]) == HIDES[text]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.what)
def test_every_shape_is_shown(shape: object) -> None:
    """Each row of the table has an example above that it alone explains."""
    assert any(_without(shape, text) != told for text, told in HIDES.items())


@pytest.mark.parametrize("text", STAYS)
def test_ordinary_texts_stay(text: str) -> None:
    """L-86: numbers, ids, file names, and sentences about keys."""
    assert without_credentials(text) == text


@pytest.mark.parametrize("kind", WITH_A_KEY)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(before=TEXTS, key=KEYS, behind=TEXTS)
def test_no_key_is_ever_told(kind: str, before: str, key: str, behind: str) -> None:
    """Whatever stands round it, and however the text is cut."""
    written = WITH_A_KEY[kind](key)
    for text in (before + written + behind, "." * 3_990 + written + behind):
        told = error_text(ValueError(text))
        assert key[:10].lower() not in told.lower()
        assert len(told) <= 4_000


WORDS = st.sampled_from(
    ["the", "key", "token", "password", "secret", "of", "is", "bearer", "basic", "api", "authorization", "12", "x.py"]
)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    st.one_of(
        st.lists(WORDS, max_size=12).map(" ".join),
        st.integers().map(str),
        st.floats().map(str),
        st.uuids().map(str),
        st.datetimes().map(str),
        st.from_regex(r"(/?[a-z]{1,9}){1,5}\.(py|md|csv|tar\.gz)", fullmatch=True),
    )
)
def test_no_ordinary_text_is_changed(text: str) -> None:
    """L-86: without a value behind it, a name of a secret is a word."""
    assert without_credentials(text) == text


PIECES = [
    "eyJ",
    "eyJaaaa.",
    "sk-",
    "sk-a-",
    "a-",
    "xoxb-",
    "password=",
    'password="',
    "token\\\\",
    "://",
    "://@",
    "Bearer ",
]
PIECES += [
    "basic a",
    "authorization: ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "AKIA",
    "api_",
    "\\",
    "'",
    " ",
    "=",
]


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_takes_long(piece: str) -> None:
    """The work is bounded: 16,000 characters made to be hard take some milliseconds, and a megabyte takes no longer."""
    for text in (piece * 8_000, piece * 8_000 + "!", (piece + "A") * 8_000, piece + "a" * 1_000_000):
        began = time.process_time()
        without_credentials(text)
        assert time.process_time() - began < 0.5


def test_what_the_window_cuts_is_dropped_whole() -> None:
    """A key of which only half would be seen has no shape any more."""
    hidden = "-----BEGIN PRIVATE KEY-----" + "A" * 15_920 + "-----END PRIVATE KEY-----"
    text = f"{hidden} sk-{'k' * 40}"
    assert text.index("kkk") < 16_000 < text.index("kkk") + 40
    assert without_credentials(text) == f"{HIDDEN} "


def test_an_exception_without_a_text() -> None:
    """L-86: also one whose text raises."""

    class Bad(Exception):
        def __str__(self) -> str:
            raise LookupError

    assert [error_message(error) for error in (ValueError(), Bad())] == ["", ""]
    assert error_text(Bad()) == "Bad"
    assert error_message(ValueError("token=abc")) == "token=[hidden]"


def _without(shape: object, text: str) -> str:
    for other in SHAPES:
        if other is not shape:
            text = other.pattern.sub(other.told, text)
    return text
