"""Windows of time as offsets (R11). Pure.

Each instant is resolved once. The window that ends there and the one that begins there share the
result, so windows tile. Kafka's look-up by time (ListOffsets) finds the first record, by offset,
that is not older than an instant. It cannot know the records that retention has deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tideline.model.offsets import PartitionIdentity

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
    """An instant in UTC.

    Args:
        at: With its offset from UTC.

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
