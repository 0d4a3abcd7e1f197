"""Reconcile what a plan asked for with what the committed table version holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tideline.core.coverage import Intervals, intersect, subtract, union
from tideline.core.gap_evidence import ADMITTED, REASONS, Gap, GapReason, assign, merge_gaps
from tideline.core.incident import Finding
from tideline.core.offsets import PartitionIdentity
from tideline.core.plan import BatchPlan, PlannedRange
from tideline.core.verdicts import FindingClass

_BY_POLICY: dict[str, GapReason] = {
    "transactional": "transactional",
    "compacted": "compacted",
    "refuse": "refused",
}
"""Gap policies that need no look at the log; `explain` does."""

Evidence = Mapping[PartitionIdentity, Sequence[Gap]]


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


def missing_offsets(
    planned: Iterable[PlannedRange], landed: Mapping[PartitionIdentity, LandedRange]
) -> dict[PartitionIdentity, Intervals]:
    """Planned offsets without a row, by identity; identities without any are left out."""
    found = {}
    for item in planned:
        there = landed.get(item.identity)
        missing = subtract([item.offsets], there.offsets if there is not None else ())
        if missing:
            found[item.identity] = missing
    return found


def unexplained_by(
    missing: Mapping[PartitionIdentity, Intervals], known: Evidence
) -> dict[PartitionIdentity, Intervals]:
    """The missing offsets that no evidence speaks of yet."""
    left = {}
    for identity, intervals in missing.items():
        _, rest = assign(intervals, known.get(identity, ()))
        if rest:
            left[identity] = rest
    return left


def verify_ranges(
    planned: Iterable[PlannedRange],
    landed: Mapping[PartitionIdentity, LandedRange],
    *,
    gaps: str,
    evidence: Evidence,
    excused: Mapping[PartitionIdentity, Intervals],
) -> tuple[tuple[VerifiedRange, ...], tuple[Mismatch, ...]]:
    """Count, minimum, maximum and distinct offsets of every planned range.

    Args:
        planned: The plan's ranges.
        landed: What the committed version holds inside them.
        gaps: The stream's gap policy.
        evidence: What the log shows at missing offsets; counts for `explain` only.
        excused: Offsets whose loss was accepted by a decision.

    Returns:
        The ranges that hold, and those that do not.
    """
    good: list[VerifiedRange] = []
    bad: list[Mismatch] = []
    for item in planned:
        found = landed.get(item.identity) or LandedRange(item.identity, 0, ())
        missing = subtract([item.offsets], found.offsets)
        accepted = intersect(missing, excused.get(item.identity, ()))
        known = [Gap(r, "accepted") for r in accepted]
        rest = subtract(missing, accepted)
        if gaps in _BY_POLICY:
            known += [Gap(r, _BY_POLICY[gaps]) for r in rest]
        else:
            shown, unseen = assign(rest, evidence.get(item.identity, ()))
            known += [*shown, *(Gap(r, "expired") for r in unseen)]
        reasons = merge_gaps(known)
        open_gaps = tuple(g for g in reasons if g.reason not in ADMITTED)
        if found.duplicates or open_gaps:
            bad.append(Mismatch(item, found.rows, open_gaps, found.duplicates))
        else:
            good.append(VerifiedRange(item, found.rows, reasons))
    return tuple(good), tuple(bad)


def gap_findings(mismatches: Iterable[Mismatch], plan: BatchPlan) -> tuple[Finding, ...]:
    """What missing offsets without an excuse mean: a hole in the log, or no explanation.

    Args:
        mismatches: Ranges that do not verify.
        plan: Whose they are; a backfill's gaps are its own business.
    """
    backfill = plan.plan_id if plan.lane == "backfill" else None
    return tuple(
        replace(_gap_finding(item, kind, gaps), backfill=backfill)
        for item in mismatches
        for kind, gaps in _by_class(item.gaps).items()
    )


def _by_class(gaps: Iterable[Gap]) -> dict[FindingClass, list[Gap]]:
    sorted_by: dict[FindingClass, list[Gap]] = {}
    for gap in gaps:
        in_log = gap.reason in ("hole", "thinned")
        sorted_by.setdefault("log_hole" if in_log else "unexplained_gap", []).append(gap)
    return sorted_by


def _gap_finding(item: Mismatch, kind: FindingClass, gaps: list[Gap]) -> Finding:
    reasons = sorted({REASONS[g.reason] for g in gaps})
    return Finding(
        kind=kind,
        expected=f"a row or a reason for each of the {len(item.planned.offsets)} offsets of"
        f" {item.planned.offsets}",
        actual=f"{item.rows} rows; where they are missing: {'; '.join(reasons)}",
        topic=item.planned.topic,
        topic_id=item.planned.topic_id,
        partition=item.planned.partition,
        intervals=union(g.offsets for g in gaps),
    )
