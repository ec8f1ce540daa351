"""The tree of exceptions: what holds for each, and what a group of exceptions stands for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest

from handrail import errors
from handrail.errors import HandrailError, first_of, leaves_of, words_of

EXAMPLES: list[HandrailError] = [
    errors.BackendError("no", "http", status=429, retry_after=2.5),
    errors.AbortRun("the disk is gone"),
    errors.Refuse(402, "pay first", code="unpaid"),
    errors.RemoteProtocolError("no", rule="P-1", index=3, path="a.b"),
    errors.RemoteDecodeError("no", index=3, excerpt="<html>"),
    errors.TruncatedError(run_started=True, open_items=["a"]),
    errors.TransportError("no", phase="read"),
    errors.HttpError("no", status=404, body=b"x", payload={"a": 1}),
    errors.LocalProtocolError("no", rule="P-25", path="state"),
    errors.PatchError("no", index=1, op="add", path="/a", why="gone"),
    errors.InterruptedThreadError("no", ["i"]),
    errors.ResumeError("no", unknown=["zz"]),
    errors.RunIdReusedError("no", "r1"),
    errors.UsageError("use await"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_exception_can_be_pickled(error: HandrailError) -> None:
    """Section 10: a process that raises one can tell another, whatever its `__init__` asks for."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


def test_the_examples_are_all_that_have_parts_of_their_own() -> None:
    """Section 10: nothing of the tree was left out."""

    def below(cls: type[HandrailError]) -> Iterator[type[HandrailError]]:
        for one in cls.__subclasses__():
            yield one
            yield from below(one)

    with_parts = {cls for cls in below(HandrailError) if "__init__" in vars(cls) and cls.__module__ == errors.__name__}
    assert with_parts <= {type(error) for error in EXAMPLES}


def test_a_group_is_the_exceptions_it_is_made_of() -> None:
    """R-86, L-86: however deep; any other exception is made of itself."""
    inner, outer = ValueError("a"), KeyError("b")
    group = ExceptionGroup("out", [outer, ExceptionGroup("in", [inner])])
    assert list(leaves_of(group)) == [outer, inner]
    assert list(leaves_of(inner)) == [inner]
    assert (first_of(group, ValueError), first_of(group, OSError), first_of(inner, ValueError)) == (inner, None, inner)
    assert words_of(group) == "out (2 sub-exceptions): KeyError: 'b'; ValueError: a"
    assert words_of(inner) == "a"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not telling")


def test_an_exception_whose_text_raises_says_nothing() -> None:
    """R-86: it is an exception all the same."""
    assert words_of(Mute()) == ""
    assert words_of(ExceptionGroup("out", [Mute()])) == "out (1 sub-exception): Mute: "
