"""What a table holds of a planned range, and how that compares with the plan."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.model.coverage import Intervals
from tideline.model.gaps import REASONS, Gap
from tideline.model.offsets import PartitionIdentity
from tideline.model.plan import PlannedRange


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
    def distinct(self) -> int:
        """How many offsets have a row."""
        return sum(len(r) for r in self.offsets)

    @property
    def duplicates(self) -> int:
        """Rows beyond one per offset."""
        return self.rows - self.distinct


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """A planned range, its rows, and why the offsets without a row have none."""

    planned: PlannedRange
    rows: int
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A planned range that the table does not bear out.

    Args:
        gaps: Offsets without a row that nothing excuses.
        duplicates: Rows beyond one per offset.
    """

    planned: PlannedRange
    rows: int
    gaps: tuple[Gap, ...]
    duplicates: int

    def __str__(self) -> str:
        parts = [f"{self.planned}: {len(self.planned.offsets)} offsets planned, {self.rows} rows"]
        if self.gaps:
            shown = ", ".join(f"{g.offsets} ({REASONS[g.reason]})" for g in self.gaps[:5])
            more = f" and {len(self.gaps) - 5} more" if len(self.gaps) > 5 else ""
            parts.append(f"no row for {shown}{more}")
        if self.duplicates:
            parts.append(f"{self.duplicates} rows too many")
        return ", ".join(parts)
