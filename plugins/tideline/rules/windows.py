"""From look-ups by time to the boundary offsets of windows (R11). Pure.

Kafka's look-up by time (ListOffsets) finds the first record, by offset, that is not older than an
instant. It cannot know the records that retention has deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from tideline.errors import WindowUnavailable
from tideline.model.head import PartitionPosition
from tideline.model.observation import PartitionObservation, TimedOffset
from tideline.model.window import ResolvedTimestamp, WindowBoundary, utc_text


def find_window_boundary(
    at: datetime,
    position: PartitionPosition,
    seen: PartitionObservation,
    found: TimedOffset | None,
    now: datetime,
) -> WindowBoundary:
    """The offset of an instant in one partition.

    Args:
        at: The instant, UTC-aware; not later than now.
        position: The live lane's position in the partition.
        seen: Observed **before** the look-up, so that its end is not past records that the look-up
            did not see.
        found: The answer of the look-up; None if every record is older than the instant.
        now: The time, UTC-aware.

    Raises:
        WindowUnavailable: The timestamp of the record is in the future. Later offsets may hold
            records of any time, so the look-up proves nothing.
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
            f"{position}: the first record at or after {utc_text(at)}, at offset {found.offset},"
            f" has timestamp {_when(found.timestamp_ms)}, in the future: this log is not in time"
            f" order. Request offsets instead, for example"
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
    """The boundary, not lower than that of an earlier instant, not higher than that of a later one.

    Windows tile only if boundaries are in the order of their instants. Without this, retention or a
    log that is not in time order could change their order.

    Args:
        boundary: As just looked up.
        at: Its instant, UTC-aware.
        known: Every instant that is resolved already.
        start: Log start (inclusive) observed before the look-up.
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


def _when(timestamp_ms: int) -> str:
    try:
        return utc_text(datetime.fromtimestamp(timestamp_ms / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
