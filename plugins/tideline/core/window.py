"""Windows of time as offsets: each instant is resolved once and shared by both neighbours (R11).

Kafka's look-up by time finds the first record, by offset, that is not older than an instant; it
forgets what retention has deleted. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tideline.core.observation import PartitionObservation, TimedOffset
from tideline.core.offsets import PartitionIdentity
from tideline.core.positions import PartitionPosition
from tideline.errors import WindowUnavailable


@dataclass(frozen=True, slots=True)
class Window:
    """A window of time, `start` inclusive, `end` exclusive, both UTC-aware.

    Raises:
        ValueError: A time without an offset from UTC, or an end that is not after the start.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("a window's times need an offset from UTC")
        if self.end <= self.start:
            raise ValueError(f"not a window: {self}")

    def __str__(self) -> str:
        return f"[{_text(self.start)}, {_text(self.end)})"


@dataclass(frozen=True, slots=True)
class Boundary:
    """What an instant means in one partition.

    Args:
        offset: First offset at or after the instant; the log's end where no record reaches it.
        expired: The log begins here and has lost what was before: the true offset may be lower.
    """

    topic: str
    identity: PartitionIdentity
    offset: int
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Instant:
    """A time and its offsets, for good.

    Args:
        at: UTC-aware.
        boundaries: At most one per partition identity.
    """

    at: datetime
    boundaries: tuple[Boundary, ...] = ()

    @property
    def key(self) -> str:
        """The same for the same time, whatever zone it was given in."""
        return _text(self.at)

    def of(self, identity: PartitionIdentity) -> Boundary | None:
        """The boundary in one partition, None if it is not resolved yet."""
        return next((b for b in self.boundaries if b.identity == identity), None)

    def joined(self, later: Instant) -> Instant:
        """With what a later look-up adds; what is known stays."""
        known = {b.identity for b in self.boundaries}
        added = (b for b in later.boundaries if b.identity not in known)
        return Instant(self.at, (*self.boundaries, *added))


def find_boundary(
    at: datetime,
    position: PartitionPosition,
    seen: PartitionObservation,
    found: TimedOffset | None,
    now: datetime,
) -> Boundary:
    """One partition's boundary.

    Args:
        at: The instant; not later than now.
        position: Where the live lane stands in the partition.
        seen: A look taken **before** the look-up, so that nothing falls between.
        found: The look-up's answer; None where no record reaches the instant.
        now: The time, to tell a record from the future.

    Raises:
        WindowUnavailable: The record that was found claims to come from the future: it may hide
            any number of records behind it, so the look-up proves nothing.
    """
    assert seen.log_start_offset is not None
    assert seen.high_watermark is not None
    start, end = seen.log_start_offset, seen.high_watermark
    if found is None:
        unread = position.next_offset < start
        return Boundary(position.topic, position.identity, end, expired=end == start > 0 and unread)
    if found.timestamp_ms > now.timestamp() * 1000:
        raise WindowUnavailable(
            f"{position}: the first record at or after {_text(at)}, at offset {found.offset}, has"
            f" timestamp {_when(found.timestamp_ms)}, in the future: times do not order this log."
            f" Name offsets instead, for example"
            f' ranges=[{{"topic": "{position.topic}", "partition": {position.partition},'
            f' "start_offset": {start}, "end_offset": {end}}}]',
            partition=str(position),
            offset=found.offset,
            timestamp_ms=found.timestamp_ms,
        )
    return Boundary(
        position.topic, position.identity, found.offset, expired=0 < start >= found.offset
    )


def in_order(boundary: Boundary, at: datetime, known: Iterable[Instant], start: int) -> Boundary:
    """The boundary, no lower than an earlier instant's and no higher than a later one's.

    A look-up after retention, or in a log whose times are out of order, may find another record
    than it would have found before. Windows tile only if instants stay in order.

    Args:
        boundary: As just looked up.
        at: Its instant.
        known: Every instant that has been resolved.
        start: The log start that was seen before the look-up.
    """
    earlier, later = [boundary.offset], [boundary.offset]
    for instant in known:
        other = instant.of(boundary.identity)
        if other is not None and instant.at != at:
            (earlier if instant.at < at else later).append(other.offset)
    offset = min(max(earlier), min(later))
    if offset == boundary.offset:
        return boundary
    return replace(boundary, offset=offset, expired=boundary.expired or offset < start)


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _when(timestamp_ms: int) -> str:
    try:
        return _text(datetime.fromtimestamp(timestamp_ms / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
