"""What every event has: its time, its place, and how it says itself as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast, dataclass_transform, get_args

from pydantic import BaseModel

__all__ = ["Plain", "RunEvent", "event", "one_of", "plain"]

_now: Callable[[], datetime] = partial(datetime.now, UTC)
_new = object.__new__
_T = TypeVar("_T", bound="type[RunEvent]")


class Plain(Protocol):
    """What can say itself as plain JSON data: a `Usage`, an `Attempt`."""

    def to_dict(self) -> dict[str, Any]: ...


def plain(value: Any) -> Any:
    """The value as plain JSON data: models by their wire names, decimals as strings, times in ISO 8601."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in cast("Sequence[Any]", value)]
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """The base of all events.

    `ts` is an aware UTC time: the maker's, else the moment the event was made; it need not rise with `seq`. `run_id`
    and `seq` are None until the event is published. `ends` is set on the three terminal events and says how they end.
    """

    kind: ClassVar[str] = "event"
    ends: ClassVar[Literal["completed", "failed", "cancelled"] | None] = None
    is_terminal: ClassVar[bool] = False

    ts: datetime = field(default_factory=_now)
    run_id: str | None = None
    seq: int | None = None

    # Of each class: how to copy one instance slot by slot (the hot path), which payload keys there are in order, which
    # of them may be left out, and the values of closed sets.
    _copiers: ClassVar[tuple[tuple[Callable[[Any, Any], None], Callable[[Any], Any]], ...]] = ()
    _payload: ClassVar[tuple[str, ...]] = ()
    _optional: ClassVar[frozenset[str]] = frozenset()

    def stamped(self, run_id: str, seq: int) -> RunEvent:
        """A copy placed in a run. This one does not change; the values are shared, not copied."""
        copy = _new(type(self))
        for put, get in self._copiers:
            put(copy, get(self))
        _put_run_id(copy, run_id)
        _put_seq(copy, seq)
        return copy

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: `kind`, `ts`, the place once published, the payload. What is unknown is left out."""
        data: dict[str, Any] = {"kind": self.kind, "ts": plain(self.ts)}
        if self.seq is not None:
            data |= {"run_id": self.run_id, "seq": self.seq}
        for name in self._payload:
            value = plain(getattr(self, name))
            if name not in self._optional or not (value is None or value in ({}, [])):
                data[name] = value
        return data


_put_run_id: Callable[[Any, Any], None] = RunEvent.__dict__["run_id"].__set__
_put_seq: Callable[[Any, Any], None] = RunEvent.__dict__["seq"].__set__


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(cls: _T) -> _T:
    """Make an event class: a frozen, slotted, keyword-only dataclass that knows its own payload."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    payload = [f for f in fields(made) if f.name not in ("ts", "run_id", "seq")]
    slots = [getattr(made, name) for name in ("ts", *(f.name for f in payload))]
    made._payload = tuple(f.name for f in payload)
    made._optional = frozenset(f.name for f in payload if f.default is not MISSING)
    made._copiers = tuple((slot.__set__, slot.__get__) for slot in slots)
    return made


def one_of(allowed: Any, name: str, value: object) -> None:
    if value not in get_args(allowed):
        raise ValueError(f"{name} is one of {', '.join(get_args(allowed))}; got {value!r}")
