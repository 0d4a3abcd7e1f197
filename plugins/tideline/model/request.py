"""What is requested of a run: nothing for a live run, a window of time or ranges for a backfill.

A window's instants become offsets (R11). Each instant is resolved once: the window that ends there
and the one that begins there share the result, so windows tile. Kafka's look-up by time
(ListOffsets) finds the first record, by offset, that is not older than an instant. It cannot know
the records that retention has deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from tideline.errors import BadInput
from tideline.model.offsets import OffsetRange, PartitionIdentity, TopicPartition
from tideline.model.wording import how_many, key_shown, reason_problem, shown

Lane = Literal["live", "backfill"]
FORM = ("from", "to", "ranges", "plan_only", "reason")
"""Keys of a manual trigger's form."""
MOST_RANGES = 10_000
"""Of one request; a range is for one partition."""
_LARGEST = 2**63 - 1
_RANGE = ("topic", "partition", "start_offset", "end_offset")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """A window of time, `start` inclusive, `end` exclusive, both UTC-aware.

    Raises:
        ValueError: A time has no offset from UTC, or the end is not after the start.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("a window's times need an offset from UTC")
        if self.end <= self.start:
            raise ValueError(f"not a window: {self}")

    def __str__(self) -> str:
        return f"[{utc_text(self.start)}, {utc_text(self.end)})"


@dataclass(frozen=True, slots=True)
class WindowBoundary:
    """The offset of an instant in one partition.

    Args:
        topic: Topic name.
        identity: The log that the offset belongs to.
        offset: Offset of the first record at or after the instant; the log's end (exclusive) if
            every record is older.
        expired: The log starts at or after this offset, so the true offset may be lower.
    """

    topic: str
    identity: PartitionIdentity
    offset: int
    expired: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedTimestamp:
    """An instant and its offsets. Once known, an offset does not change.

    Args:
        at: The instant, UTC-aware.
        boundaries: At most one per partition identity.
    """

    at: datetime
    boundaries: tuple[WindowBoundary, ...] = ()

    @property
    def key(self) -> str:
        """The instant as text in UTC: the same for every time zone it was given in."""
        return utc_text(self.at)

    def of(self, identity: PartitionIdentity) -> WindowBoundary | None:
        """The boundary in one partition; None if it is not resolved yet."""
        return next((b for b in self.boundaries if b.identity == identity), None)

    def joined(self, later: ResolvedTimestamp) -> ResolvedTimestamp:
        """This, with the boundaries of partitions that only a later look-up has resolved."""
        known = {b.identity for b in self.boundaries}
        added = (b for b in later.boundaries if b.identity not in known)
        return ResolvedTimestamp(self.at, (*self.boundaries, *added))


def in_utc(at: datetime) -> datetime:
    """An instant, given with its offset from UTC, in UTC.

    Raises:
        ValueError: Kafka has no such time. To its look-up -1 stands for the log's end, -2 for its
            start (ListOffsets), so that an instant before 1970 would mean something else.
    """
    try:
        found = at.astimezone(UTC)
    except OverflowError:
        found = None
    if found is None or found < _EPOCH:
        raise ValueError("needs a time of Kafka's, from 1970-01-01T00:00:00Z on")
    return found


def utc_text(at: datetime) -> str:
    """A time in UTC, as ISO 8601 with `Z`."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class RequestedRange:
    """Offsets `[start_offset, end_offset)` of one partition, requested by topic name."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic name and partition number, as brokers know it."""
        return TopicPartition(self.topic, self.partition)

    @property
    def offsets(self) -> OffsetRange:
        """The offsets, without topic and partition."""
        return OffsetRange(self.start_offset, self.end_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} {self.offsets}"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is requested of a run. A run id stands for one request forever.

    Args:
        window: Backfill the records of that time; None for a live run and for ranges.
        ranges: Backfill these offsets, at most one range per partition; empty otherwise.
        reason: In the words of the person who requested it; not part of the digest.
        by: Who that is: a user of Airflow's, or `os:` and a user of the operating system; None
            for a schedule. Not part of the digest.
    """

    window: Window | None = None
    ranges: tuple[RequestedRange, ...] = ()
    reason: str | None = None
    by: str | None = None

    @property
    def lane(self) -> Lane:
        """`backfill` with a window or ranges, otherwise `live`. A backfill never moves the head."""
        return "backfill" if self.window is not None or self.ranges else "live"

    @property
    def digest(self) -> str:
        """A fingerprint: equal requests have equal ones."""
        asked: dict[str, Any] = {"lane": self.lane}
        if self.window is not None:
            asked["window"] = str(self.window)
        if self.ranges:
            asked["ranges"] = sorted(str(r) for r in self.ranges)
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return str(self.window or ", ".join(map(str, self.ranges)) or "the live lane")


def read_form(form: Mapping[str, Any], now: datetime, keys: Collection[str] = FORM) -> RunRequest:
    """The request in a trigger's form or on a command line.

    Args:
        form: Some of the keys; None, an empty text and an empty list mean that a key is not given.
        now: The time, UTC-aware; a window must not end after it.
        keys: Those that are allowed, of `FORM`.

    Raises:
        BadInput: An unknown key, a wrong type or value, or a contradiction; the message says what
            is allowed.
    """
    unknown = sorted(set(form) - set(keys))
    if unknown:
        allowed = ", ".join(keys)
        raise BadInput(f"the run's conf: {key_shown(unknown[0])}: unknown key; allowed: {allowed}")
    given = {key: value for key, value in form.items() if value not in (None, "", [])}
    if not isinstance(given.get("plan_only", False), bool):
        raise _refused("plan_only", given["plan_only"], "true, false")
    if not isinstance(given.get("reason", ""), str):
        raise _refused("reason", given["reason"], "text")
    if problem := reason_problem(given.get("reason", "")):
        raise BadInput(f"the run's request: reason: {problem}", key="reason")
    ranges = _read_ranges(given["ranges"]) if "ranges" in given else ()
    window = None
    if "from" in given or "to" in given:
        if ranges:
            raise _refused("ranges", "together with from and to", "a window or ranges, not both")
        for key in ("from", "to"):
            if key not in given:
                raise _refused(key, None, "both from and to, or neither")
        window = make_window(read_time("from", given["from"]), read_time("to", given["to"]), now)
    return RunRequest(window, ranges, given.get("reason"))


def make_window(start: datetime, end: datetime, now: datetime) -> Window:
    """A window that has ended, in UTC; all three times are UTC-aware, and its end is exclusive.

    Raises:
        BadInput: The end is not after the start, or is after `now`.
    """
    if end <= start:
        raise _refused("to", end.isoformat(), f"a time after from, {start.isoformat()}")
    if end > now:
        raise _refused("to", end.isoformat(), f"a time in the past; it is {now.isoformat()} now")
    return Window(start.astimezone(UTC), end.astimezone(UTC))


def read_time(key: str, value: Any) -> datetime:
    """A time of a form, in UTC.

    Args:
        key: Its key, for the message.
        value: Text in ISO 8601, or a time.

    Raises:
        BadInput: It is no time, has no offset from UTC, or is none of Kafka's.
    """
    allowed = "a time with its offset from UTC, for example 2026-01-31T00:00:00Z"
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _refused(key, value, allowed) from None
    if time.tzinfo is None:
        raise _refused(key, value, allowed)
    try:
        return in_utc(time)
    except ValueError as error:
        raise _refused(key, value, str(error)) from None


def _read_ranges(value: Any) -> tuple[RequestedRange, ...]:
    allowed = f"a list of objects with exactly {', '.join(_RANGE)}"
    if isinstance(value, str):
        try:
            value = json.loads(value, object_pairs_hook=_each_once)
        except (ValueError, RecursionError):
            raise _refused("ranges", value, allowed) from None
    if not isinstance(value, list) or not value:
        raise _refused("ranges", value, allowed)
    if len(value) > MOST_RANGES:
        problem = f"got {how_many(len(value), 'range')}; allowed: {MOST_RANGES:,}"
        raise BadInput(f"the run's request: ranges: {problem}", key="ranges")
    ranges = [_read_range(f"ranges[{number}]", item) for number, item in enumerate(value)]
    seen: set[TopicPartition] = set()
    for partition in (r.topic_partition for r in ranges):
        if partition in seen:
            allowed = "one range per partition; a second range needs a run of its own"
            raise _refused("ranges", f"{partition} twice", allowed)
        seen.add(partition)
    return tuple(sorted(ranges, key=lambda r: r.topic_partition))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of a key that stands twice, Python would take the last value in silence.

    Raises:
        BadInput: A key stands there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _refused("ranges", [key for key, _ in pairs], "each key of an object once")
    return found


def _read_range(key: str, item: Any) -> RequestedRange:
    if not isinstance(item, dict) or set(item) != set(_RANGE):
        raise _refused(key, item, f"an object with exactly {', '.join(_RANGE)}")
    if not isinstance(item["topic"], str):
        raise _refused(f"{key}.topic", item["topic"], "a topic name")
    for name in _RANGE[1:]:
        is_number = isinstance(item[name], int) and not isinstance(item[name], bool)
        if not is_number or not 0 <= item[name] <= _LARGEST:
            raise _refused(f"{key}.{name}", item[name], f"a whole number from 0 to {_LARGEST}")
    if item["end_offset"] <= item["start_offset"]:
        raise _refused(
            f"{key}.end_offset",
            item["end_offset"],
            f"more than {item['start_offset']}, since the end is exclusive",
        )
    return RequestedRange(**item)


def _refused(key: str, value: Any, allowed: str) -> BadInput:
    got = "nothing" if value is None else shown(value)
    return BadInput(f"the run's request: {key}: got {got}; allowed: {allowed}", key=key)
