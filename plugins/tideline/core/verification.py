"""Reconcile what a plan asked for with what the committed table version holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.core.coverage import Intervals, subtract
from tideline.core.offsets import OffsetRange, PartitionIdentity
from tideline.core.plan import PlannedRange

ADMITTED_KINDS = {
    "transactional": "transaction marker or aborted record",
    "compacted": "compacted away",
}
"""Gap policies that admit missing offsets by kind, and the reason they are recorded under."""


@dataclass(frozen=True, slots=True)
class LandedRange:
    """What the table holds of one partition inside a planned range.

    Args:
        identity: The log the rows belong to.
        rows: Rows found, copies counted.
        offsets: The distinct offsets found, as normalized ranges.
    """

    identity: PartitionIdentity
    rows: int
    offsets: Intervals

    @property
    def duplicates(self) -> int:
        """Rows beyond one per offset."""
        return self.rows - sum(len(r) for r in self.offsets)


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """A planned range, its rows, and why the offsets without a row have none."""

    planned: PlannedRange
    rows: int
    gaps: Intervals = ()
    gap_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A planned range that the table does not bear out."""

    planned: PlannedRange
    rows: int
    missing: Intervals
    duplicates: int

    def __str__(self) -> str:
        parts = [f"{self.planned}: {len(self.planned.offsets)} offsets planned, {self.rows} rows"]
        if self.missing:
            shown = ", ".join(str(r) for r in self.missing[:5])
            more = f" and {len(self.missing) - 5} more" if len(self.missing) > 5 else ""
            parts.append(f"no row for {shown}{more}")
        if self.duplicates:
            parts.append(f"{self.duplicates} rows too many")
        return ", ".join(parts)


def verify_ranges(
    planned: Iterable[PlannedRange],
    landed: Mapping[PartitionIdentity, LandedRange],
    *,
    gaps: str,
) -> tuple[tuple[VerifiedRange, ...], tuple[Mismatch, ...]]:
    """Count, minimum, maximum and distinct offsets of every planned range.

    Args:
        planned: The plan's ranges.
        landed: What the committed version holds inside them.
        gaps: The stream's gap policy. `transactional` and `compacted` admit offsets without a
            row by kind; every other policy demands a row for each.

    Returns:
        The ranges that hold, and those that do not.
    """
    reason = ADMITTED_KINDS.get(gaps)
    good: list[VerifiedRange] = []
    bad: list[Mismatch] = []
    for item in planned:
        found = landed.get(item.identity) or LandedRange(item.identity, 0, ())
        whole = (OffsetRange(item.start_offset, item.end_offset),)
        missing = subtract(whole, found.offsets)
        if found.duplicates or (missing and reason is None):
            bad.append(Mismatch(item, found.rows, missing, found.duplicates))
        else:
            good.append(VerifiedRange(item, found.rows, missing, reason if missing else None))
    return tuple(good), tuple(bad)
