"""How long until retention reaches the next offset to read. Pure.

Retention deletes a segment when its newest record is older than `retention.ms` (Kafka's topic
configuration). So the age of the oldest unread record gives a lower bound of the time left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tideline.model.durations import duration_text


def reaches_text(topic: str, partition: int, next_offset: int, seconds_left: float | None) -> str:
    """When retention may reach an offset, for people.

    Args:
        topic: Topic name.
        partition: Partition number.
        next_offset: The oldest unread offset.
        seconds_left: Seconds until then; below 0 if overdue, None if not known.
    """
    place = f"{topic}-{partition}: retention"
    if seconds_left is None:
        return f"{place} reaches offset {next_offset} at an unknown time"
    if seconds_left <= 0:
        overdue = duration_text(-seconds_left)
        return f"{place} may delete offset {next_offset} at any time, for {overdue} now"
    return f"{place} reaches offset {next_offset} in {duration_text(seconds_left)}"


@dataclass(frozen=True, slots=True)
class Headroom:
    """When retention may reach one partition's next offset.

    Args:
        topic: Topic name.
        partition: Partition number.
        next_offset: The oldest unread offset.
        written_at: Timestamp of the first record in the batch there, UTC-aware; None if unknown.
        retention_ms: The topic's `retention.ms`, in milliseconds; None if time deletes nothing.
    """

    topic: str
    partition: int
    next_offset: int
    written_at: datetime | None
    retention_ms: int | None

    @property
    def expires_at(self) -> datetime | None:
        """The earliest time at which the record may be deleted; None if unknown or never."""
        if self.written_at is None or self.retention_ms is None:
            return None
        try:
            return self.written_at + timedelta(milliseconds=self.retention_ms)
        except OverflowError:  # the retention ends after the year 9999
            return None

    def seconds_left(self, now: datetime) -> float | None:
        """Seconds from `now` (UTC-aware) to `expires_at`; below 0 if overdue, None if not known."""
        return None if self.expires_at is None else (self.expires_at - now).total_seconds()
