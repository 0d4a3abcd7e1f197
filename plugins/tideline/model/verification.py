"""The rows of a planned range in the table, and the result of comparing them with the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideline.model.coverage import Intervals
from tideline.model.gaps import REASONS, Gap
from tideline.model.offsets import PartitionIdentity
from tideline.model.plan import PlannedRange
from tideline.model.wording import first_few


@dataclass(frozen=True, slots=True)
class LandedRange:
    """The rows of one partition inside a planned range.

    Args:
        identity: The log that the rows belong to.
        rows: Number of rows, duplicates included.
        offsets: The distinct offsets of these rows, as normalized half-open ranges.
    """

    identity: PartitionIdentity
    rows: int
    offsets: Intervals

    @property
    def distinct(self) -> int:
        """Number of offsets that have a row."""
        return sum(len(r) for r in self.offsets)

    @property
    def duplicates(self) -> int:
        """Number of rows beyond one per offset."""
        return self.rows - self.distinct


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """What an attempt has written and not committed yet.

    Args:
        files: Its data files: paths relative to the table, with `/`, not URL-encoded.
        landed: What they hold, by partition.
    """

    files: tuple[str, ...]
    landed: Mapping[PartitionIdentity, LandedRange]


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """A planned range that the table holds.

    Args:
        planned: The range.
        rows: Number of its rows.
        gaps: Offsets without a row, each with the reason that explains it.
    """

    planned: PlannedRange
    rows: int
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A planned range that the table does not hold as planned.

    Args:
        planned: The range.
        rows: Number of its rows, duplicates included.
        gaps: Offsets without a row that no admitted reason explains.
        duplicates: Number of rows beyond one per offset.
        reasons: Offsets without a row that an admitted reason explains.
    """

    planned: PlannedRange
    rows: int
    gaps: tuple[Gap, ...]
    duplicates: int
    reasons: tuple[Gap, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.planned}: {len(self.planned.offsets)} offsets planned, {self.rows} rows"]
        if self.gaps:
            gaps = first_few(f"{g.offsets} ({REASONS[g.reason]})" for g in self.gaps)
            parts.append(f"no row for {gaps}")
        if self.duplicates:
            parts.append(f"{self.duplicates} rows too many")
        return ", ".join(parts)
