"""Bodies for tests: events as an event stream, cut in every way, and what an `Inbound` makes of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from handrail.agui._history import stopped_answer
from handrail.agui._inbound import Inbound
from handrail.agui._input import encode_input, outgoing_input
from handrail.agui._warnings import WarningRecord
from handrail.errors import WireError


def sse(payloads: Iterable[dict[str, Any]], *, ensure_ascii: bool = False) -> bytes:
    """One `data:` frame for each payload, as it stands; a lone half of a pair has to be escaped."""
    lines = (json.dumps(payload, ensure_ascii=ensure_ascii) for payload in payloads)
    return b"".join(b"data: " + line.encode() + b"\n\n" for line in lines)


def whole(body: bytes) -> list[bytes]:
    return [body]


def bytewise(body: bytes) -> list[bytes]:
    return [body[index : index + 1] for index in range(len(body))]


def pieces(body: bytes, seed: int = 0, longest: int = 40) -> list[bytes]:
    """The body in pieces of random length, empty ones among them."""
    chance = random.Random(seed)
    cut, at = [], 0
    while at < len(body):
        length = chance.randint(0, longest)
        cut.append(body[at : at + length])
        at += length
    return cut


def every_cut(body: bytes) -> Iterator[list[bytes]]:
    """The ways in which a body is cut in the tests of one: each must give the same."""
    yield whole(body)
    yield bytewise(body)
    yield pieces(body, 1)
    yield pieces(body, 2, longest=1000)


@dataclass
class Reading:
    """All that one reading of a body gave."""

    inbound: Inbound
    events: list[Any] = field(default_factory=list)
    warnings: list[WarningRecord] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        return [event.type.value for event in self.events]

    @property
    def dumps(self) -> list[dict[str, Any]]:
        """The events on the wire; an absent field is not there."""
        return [event.model_dump(by_alias=True, exclude_unset=True) for event in self.events]

    @property
    def codes(self) -> list[str]:
        return [record.code for record in self.warnings]

    @property
    def verdict(self) -> Any:
        return self.inbound.verdict

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [message.model_dump(by_alias=True, exclude_none=True) for message in self.inbound.fold.messages]

    def told(self) -> tuple[Any, ...]:
        """What must not depend on how the body was cut."""
        verdict = self.verdict
        said = (verdict.said, verdict.failure, verdict.message, str(verdict.rejected), verdict.late_error)
        return (self.dumps, self.warnings, said, self.messages, self.inbound.fold.state)


def read(reads: Sequence[bytes] | Sequence[dict[str, Any]], *, ends: bool = True, **options: Any) -> Reading:
    """Feeds a body, or payloads, to a new `Inbound` and takes everything out."""
    warnings: list[WarningRecord] = []
    numbers = count(1)
    options = {"warn": warnings.append, "new_id": lambda: f"id-{next(numbers)}"} | options
    reading = Reading(Inbound(**options), warnings=warnings)
    for item in reads:
        feed = reading.inbound.feed if isinstance(item, bytes) else reading.inbound.feed_payload
        reading.events.extend(feed(item))
    if ends:
        reading.events.extend(reading.inbound.end())
    return reading


def read_every_cut(body: bytes, **options: Any) -> Reading:
    """The one reading that all cuts of a body agree on."""
    first, *others = (read(reads, **options) for reads in every_cut(body))
    for other in others:
        assert other.told() == first.told()
    return first


def asked_everything(reading: Reading) -> Reading:
    """Asks a reading for all it knows; whatever it was fed, the answers are there and can be sent."""
    fold, verdict = reading.inbound.fold, reading.verdict
    assert reading.inbound.is_over
    assert verdict.outcome in ("completed", "failed", "cancelled")
    assert verdict.cause is None or isinstance(verdict.cause, WireError)
    assert (verdict.failure is None) is (verdict.said in ("success", "interrupt", "cancelled"))
    sent = fold.history(stopped_answer(lambda: "made"))
    request = {"threadId": "t1", "runId": "r2", "messages": list(sent), "state": fold.state}
    assert json.loads(encode_input(outgoing_input(request, lambda record: None)))["threadId"] == "t1"
    assert isinstance(fold.final, str)
    assert len(fold.pending_tool_calls) == len(set(fold.pending_tool_calls)) or verdict.said == "success"
    return reading
