"""What a failure means and what is done about it: the tables, and properties over them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import BackendError, RetryPolicy, Usage
from handrail.loop._attempts import Attempt, Failure, Step, classify, cut_text, next_step, with_usage

POLICY = RetryPolicy()


def http(status: int | None, text: str = "no", **more: object) -> BackendError:
    return BackendError(text, "http", status=status, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "error_class", "asks_for", "degrades"),
    [
        (BackendError("x", "overflow"), "overflow", "advance", False),
        (http(413), "overflow", "advance", False),
        (http(400, "context_length_exceeded"), "overflow", "advance", False),
        (http(400, "This model's MAXIMUM CONTEXT length is 8192"), "overflow", "advance", False),
        (http(400, "too many tokens in the request"), "overflow", "advance", False),
        (http(400, "Your prompt is too long"), "overflow", "advance", False),
        (http(400, "bad schema"), "http", "abort", True),
        (http(422, "too many tokens"), "http", "abort", True),
        (BackendError("x", "content-filter"), "content-filter", "advance", False),
        (BackendError("x", "unsupported"), "unsupported", "advance", False),
        *[(http(status), "http", "abort", True) for status in (400, 401, 402, 403, 404, 422)],
        (http(429), "http", "advance", True),
        *[(http(status), "http", "retry-same", True) for status in (408, 425, 500, 502, 503, 529, 599)],
        *[(http(status), "http", "advance", True) for status in (None, 302, 409, 418, 600)],
        (BackendError("x", "timeout"), "timeout", "advance", True),
        (BackendError("x", "connection"), "connection", "retry-same", True),
        (BackendError("x", "response"), "response", "advance", True),
        (BackendError("x", "misuse"), "misuse", "abort", True),
        (BackendError("x"), "other", "retry-same", True),
        (BackendError("x", "unheard-of"), "other", "retry-same", True),
        (ValueError("x"), "other", "retry-same", True),
    ],
)
def test_the_table_of_classes(error: Exception, error_class: str, asks_for: str, degrades: bool) -> None:
    """L-40, L-38: classes come from kind, status and code; the text counts for the overflow rule only."""
    failure = classify(error, POLICY)
    assert (failure.error_class, failure.asks_for, failure.degrades) == (error_class, asks_for, degrades)
    assert failure.size_refusal == (error_class == "overflow")


@given(text=st.text(), status=st.sampled_from([401, 429, 503, 404]))
def test_the_text_never_decides(text: str, status: int) -> None:
    """L-40: two errors that differ in their text only are of one class."""
    assert classify(http(status, text), POLICY).asks_for == classify(http(status, "y"), POLICY).asks_for


def test_a_policy_may_answer() -> None:
    """L-40: `classify` may answer for a BackendError; None leaves it to the table; another answer is refused."""
    policy = RetryPolicy(classify=lambda error: "retry-same" if error.status == 401 else None)
    assert classify(http(401), policy).asks_for == "retry-same"
    assert classify(http(403), policy).asks_for == "abort"
    assert classify(ValueError("x"), policy).asks_for == "retry-same"
    with pytest.raises(ValueError, match="'perhaps'"):
        classify(http(401), RetryPolicy(classify=lambda error: "perhaps"))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("asks_for", "tried", "is_last", "degrades", "done"),
    [
        ("retry-same", 1, False, True, "retry-same"),
        ("retry-same", 2, True, True, "retry-same"),
        ("retry-same", 3, False, True, "advance"),
        ("retry-same", 3, True, True, "advance"),
        ("advance", 1, False, True, "advance"),
        ("advance", 1, True, True, "retry-same"),
        ("advance", 1, True, False, "advance"),
        ("advance", 3, True, True, "advance"),
        ("abort", 1, True, True, "abort"),
        ("abort", 1, False, True, "abort"),
    ],
)
def test_the_table_of_dispositions(asks_for: str, tried: int, is_last: bool, degrades: bool, done: str) -> None:
    """L-42, L-43: what is reported is what is done; an advance on the last backend is a retry, if it may be one."""
    failure = Failure(error="x", error_class="x", asks_for=asks_for, degrades=degrades)  # type: ignore[arg-type]
    step = next_step(failure, POLICY, tried=tried, is_last=is_last, draw=0.0)
    assert step.disposition == done
    assert (step.backoff is not None) == (done == "retry-same")


@pytest.mark.parametrize(
    ("tried", "draw", "retry_after", "backoff"),
    [
        (1, 0.0, None, 1.0),
        (1, 0.5, None, 1.25),
        (2, 0.0, None, 2.0),
        (5, 0.9, None, 16.45),
        (6, 0.0, None, 30.0),
        (1, 0.0, 7.0, 7.0),
        (1, 0.0, 0.2, 1.0),
        (1, 0.0, 30.0, 30.0),
    ],
)
def test_the_backoff(tried: int, draw: float, retry_after: float | None, backoff: float) -> None:
    """L-44: doubling, jitter, cap; a longer pause asked by the provider is kept."""
    failure = Failure(error="x", error_class="x", asks_for="retry-same", retry_after=retry_after)
    step = next_step(failure, RetryPolicy(max_attempts=100), tried=tried, is_last=True, draw=draw)
    assert step.backoff == pytest.approx(backoff)


@pytest.mark.parametrize("asks_for", ["retry-same", "advance"])
def test_a_pause_above_the_cap_is_not_waited_for(asks_for: str) -> None:
    """L-44: it is an advance, and never degraded to a retry."""
    failure = Failure(error="x", error_class="http", asks_for=asks_for, retry_after=31)  # type: ignore[arg-type]
    assert next_step(failure, POLICY, tried=1, is_last=True, draw=0.0).disposition == "advance"


@given(
    asks_for=st.sampled_from(["retry-same", "advance", "abort"]),
    degrades=st.booleans(),
    is_last=st.booleans(),
    tried=st.integers(1, 2_000),
    max_attempts=st.integers(1, 2_000),
    cap=st.floats(0, 1e6),
    draw=st.floats(0, 1, exclude_max=True),
    retry_after=st.none() | st.floats(0, 1e7),
)
@settings(max_examples=300)
def test_what_every_step_keeps(
    asks_for: str,
    degrades: bool,
    is_last: bool,
    tried: int,
    max_attempts: int,
    cap: float,
    draw: float,
    retry_after: float | None,
) -> None:
    """L-41, L-42, L-44: never more attempts than allowed, never a longer wait than the cap, abort is abort."""
    policy = RetryPolicy(max_attempts=max_attempts, backoff_cap=cap)
    failure = Failure(
        error="x",
        error_class="x",
        asks_for=asks_for,  # type: ignore[arg-type]
        degrades=degrades,
        retry_after=retry_after,
    )
    step = next_step(failure, policy, tried=tried, is_last=is_last, draw=draw)
    assert (step.disposition == "abort") == (asks_for == "abort")
    if step.disposition == "retry-same":
        assert tried < max_attempts
        assert step.backoff is not None
        assert 0 <= step.backoff <= cap
        assert retry_after is None or step.backoff >= retry_after
    else:
        assert step.backoff is None


def test_texts_are_cut_and_carry_no_key() -> None:
    """L-39: class, status and the provider's words, at most 2,000 characters, no key."""
    assert cut_text(http(429, "slow down")) == "BackendError (429): slow down"
    assert len(cut_text(ValueError("x" * 5_000))) == 2_000
    told = cut_text(http(401, "Incorrect API key provided: sk-abcdef123. Authorization: Bearer tok-en.x y"))
    assert "abcdef" not in told
    assert "tok-en" not in told
    assert "Incorrect API key provided" in told


def test_usage_seen_before_a_failure_counts() -> None:
    """L-38: what the stream had reported is kept; what the failure itself reports comes later."""
    failure = classify(http(500, usage=Usage(total_tokens=9)), POLICY)
    assert with_usage(failure, Usage(prompt_tokens=4)).usage == Usage(prompt_tokens=4, total_tokens=9)
    assert with_usage(failure, None).usage == Usage(total_tokens=9)
    assert with_usage(classify(http(500), POLICY), Usage(prompt_tokens=4)).usage == Usage(prompt_tokens=4)


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"backoff_cap": -1}, {"jitter": -0.1}])
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    """L-2: at once, when it is made."""
    with pytest.raises(ValueError, match=r"attempt|seconds"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"backoff_cap": -1}, {"jitter": -0.1}, {"classify": 5}])
def test_the_refusal_of_a_policy_names_the_setting(wrong: dict[str, float]) -> None:
    """L-2"""
    with pytest.raises((ValueError, TypeError), match=rf"^{next(iter(wrong))}\b"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


def test_the_smallest_policy_is_taken() -> None:
    """L-41, L-44: one attempt; no wait at all, not even one of a second where nobody asked for a pause."""
    assert RetryPolicy(max_attempts=1, backoff_cap=0, jitter=0).max_attempts == 1
    failure = Failure(error="x", error_class="x", asks_for="retry-same")
    assert next_step(failure, RetryPolicy(backoff_cap=0), tried=1, is_last=True, draw=0.9) == Step("retry-same", 0)
    assert next_step(failure, RetryPolicy(backoff_cap=0.5), tried=1, is_last=True, draw=0.9) == Step("retry-same", 0.5)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no: sk-abc123.", "ValueError: no: sk-..."),
        ("Authorization: Bearer abc.def, twice", "ValueError: Authorization: Bearer ..., twice"),
        ("api_key='abc', x", "ValueError: api_key='...', x"),
        ("", "ValueError"),
    ],
)
def test_what_stands_in_place_of_a_key(said: str, told: str) -> None:
    """L-39: three dots, and nothing of the key; of an exception without words its name."""
    assert cut_text(ValueError(said)) == told


def test_an_attempt_says_what_is_known() -> None:
    """R-30: plain data, without what is unknown."""
    attempt = Attempt(round=1, attempt=1, backend_index=0, model="m", result="ok", usage=Usage(3, 4))
    known = {"round": 1, "backend_index": 0, "model": "m", "text": ""}
    assert attempt.to_dict() == known | {"attempt": 1, "result": "ok", "usage": Usage(3, 4).to_dict()}
    skipped = Attempt(round=1, attempt=None, backend_index=0, model="m", result="skipped", error="too big")
    assert skipped.to_dict() == known | {"result": "skipped", "error": "too big"}
