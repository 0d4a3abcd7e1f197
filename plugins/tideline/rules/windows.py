"""From look-ups by time to window boundary offsets, each resolved once (R11).

Kafka's look-up by time finds the first record, by offset, that is not older than an instant; it
forgets what retention has deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from tideline.errors import WindowUnavailable
from tideline.model.head import PartitionPosition
from tideline.model.observation import PartitionObservation, TimedOffset
from tideline.model.window import ResolvedTimestamp, WindowBoundary


def find_window_boundary(
    at: datetime,
    position: PartitionPosition,
    seen: PartitionObservation,
    found: TimedOffset | None,
    now: datetime,
) -> WindowBoundary:
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
        return WindowBoundary(
            position.topic, position.identity, end, expired=end == start > 0 and unread
        )
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
    return WindowBoundary(
        position.topic, position.identity, found.offset, expired=0 < start >= found.offset
    )


def in_order(
    boundary: WindowBoundary, at: datetime, known: Iterable[ResolvedTimestamp], start: int
) -> WindowBoundary:
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
