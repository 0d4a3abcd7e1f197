"""Windows of time as offsets: each instant is resolved once and shared by both neighbours (R11).

Kafka's look-up by time finds the first record, by offset, that is not older than an instant; it
forgets what retention has deleted. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tideline.model.offsets import PartitionIdentity


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
class WindowBoundary:
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
class ResolvedTimestamp:
    """A time and its offsets, for good.

    Args:
        at: UTC-aware.
        boundaries: At most one per partition identity.
    """

    at: datetime
    boundaries: tuple[WindowBoundary, ...] = ()

    @property
    def key(self) -> str:
        """The same for the same time, whatever zone it was given in."""
        return _text(self.at)

    def of(self, identity: PartitionIdentity) -> WindowBoundary | None:
        """The boundary in one partition, None if it is not resolved yet."""
        return next((b for b in self.boundaries if b.identity == identity), None)

    def joined(self, later: ResolvedTimestamp) -> ResolvedTimestamp:
        """With what a later look-up adds; what is known stays."""
        known = {b.identity for b in self.boundaries}
        added = (b for b in later.boundaries if b.identity not in known)
        return ResolvedTimestamp(self.at, (*self.boundaries, *added))


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
