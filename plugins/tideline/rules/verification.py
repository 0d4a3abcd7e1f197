"""Hold a plan against the rows of the committed version: each offset has one, or a reason. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tideline.model.incident import Finding, Incident
from tideline.model.observation import (
    ADMITTED,
    REASONS,
    Gap,
    GapReason,
    merge_gaps,
)
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    PlannedRange,
    TopicPartition,
    intersect,
    subtract,
    union,
)
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import BatchPlan, LandedRange, Mismatch, VerifiedRange, places_of
from tideline.model.verdicts import FindingClass
from tideline.model.wording import how_many

_BY_POLICY: dict[str, GapReason] = {
    "transactional": "transactional",
    "compacted": "compacted",
    "refuse": "refused",
}
"""Gap policies that need no evidence from the log; only `explain` does."""

Evidence = Mapping[PartitionIdentity, Sequence[Gap]]


def missing_offsets(
    planned: Iterable[PlannedRange], landed: Mapping[PartitionIdentity, LandedRange]
) -> Places:
    """The planned offsets without a row."""
    return Places.of(planned) - places_of(landed)


def still_missing(incident: Incident, landed: Mapping[PartitionIdentity, LandedRange]) -> Incident:
    """A gap's incident with those of its offsets only that have no row by now.

    Args:
        landed: What stands inside the ranges that could not be verified.
    """
    missing = missing_offsets(incident.unverified, landed)  # by generation
    left = (intersect(incident.finding.intervals, offsets) for offsets in missing.values())
    return replace(incident, finding=replace(incident.finding, intervals=union(*left)))


def unexplained_by(missing: Places, known: Evidence) -> Places:
    """The missing offsets without any evidence."""
    return Places({log: assign(r, known.get(log, ()))[1] for log, r in missing.items()})


def compare_ranges(
    planned: Iterable[PlannedRange],
    landed: Mapping[PartitionIdentity, LandedRange],
    *,
    gaps: str,
    evidence: Evidence,
    accepted_loss: Places,
    erased: Places = NOWHERE,
) -> tuple[tuple[VerifiedRange, ...], tuple[Mismatch, ...]]:
    """Compare every planned range with its rows: one row per offset, or an admitted reason.

    Args:
        landed: What the committed version holds inside the ranges.
        gaps: The stream's gap policy: `explain`, `refuse`, `transactional` or `compacted`.
        evidence: Gaps as the log shows them; only policy `explain` uses them.
        accepted_loss: Offsets whose loss a decision has accepted.
        erased: Offsets whose records were erased by key.

    Returns:
        The ranges that are as planned, and those that are not.
    """
    good: list[VerifiedRange] = []
    bad: list[Mismatch] = []
    for item in planned:
        present = landed.get(item.identity) or LandedRange(item.identity, 0, ())
        missing = subtract([item.offsets], present.offsets)
        rest, known = missing, list[Gap]()
        reasons_known: tuple[tuple[GapReason, Places], ...] = (
            ("erased", erased),
            ("accepted", accepted_loss),
        )
        for reason, offsets in reasons_known:
            known += [Gap(r, reason) for r in intersect(rest, offsets[item.identity])]
            rest = subtract(rest, offsets[item.identity])
        if gaps in _BY_POLICY:
            known += [Gap(r, _BY_POLICY[gaps]) for r in rest]
        else:  # what the log does not show any more may have been a record
            shown, unseen = assign(rest, evidence.get(item.identity, ()))
            known += [*shown, *(Gap(r, "expired") for r in unseen)]
        reasons = merge_gaps(known)
        open_gaps = tuple(g for g in reasons if g.reason not in ADMITTED)
        if present.duplicates or open_gaps:
            admitted = tuple(g for g in reasons if g.reason in ADMITTED)
            bad.append(Mismatch(item, present.rows, open_gaps, present.duplicates, admitted))
        else:
            good.append(VerifiedRange(item, present.rows, reasons))
    return tuple(good), tuple(bad)


def assign(missing: Intervals, known: Sequence[Gap]) -> tuple[tuple[Gap, ...], Intervals]:
    """Divide missing offsets into those with a known reason and the rest.

    Args:
        known: They may reach beyond the missing offsets.

    Returns:
        The gaps with their reasons, and the offsets without one.
    """
    gaps = [Gap(part, gap.reason) for gap in known for part in intersect(missing, [gap.offsets])]
    return merge_gaps(gaps), subtract(missing, union(g.offsets for g in gaps))


def sound_parts(mismatches: Iterable[Mismatch], covered: Places) -> tuple[VerifiedRange, ...]:
    """The parts of ranges that verify although the whole range does not.

    Where a row stands twice, nothing of the range does.

    Args:
        covered: Verified offsets: they belong to the runs that have verified them.
    """
    return tuple(
        _part(item, left)
        for item in mismatches
        if not item.duplicates
        for left in subtract(
            subtract([item.planned.offsets], [g.offsets for g in item.gaps]),
            covered[item.planned.identity],
        )
    )


def _part(item: Mismatch, offsets: OffsetRange) -> VerifiedRange:
    reasons = tuple(
        Gap(r, gap.reason) for gap in item.reasons for r in intersect([gap.offsets], [offsets])
    )
    planned = item.planned.at(offsets)
    return VerifiedRange(planned, len(offsets) - sum(len(g.offsets) for g in reasons), reasons)


def verified_again(
    known: Iterable[VerifiedRange], good: Sequence[VerifiedRange]
) -> tuple[VerifiedRange, ...]:
    """What a record has verified, after ranges were verified anew: each offset is named once.

    A part that was verified before may be inside a range that verifies as a whole now.
    """
    again = Places.of(item.planned for item in good)
    kept = (v for v in known if again.rest([v.planned]))
    return (*kept, *good)


def gap_findings(mismatches: Iterable[Mismatch], plan: BatchPlan) -> tuple[Finding, ...]:
    """The findings about missing offsets without an admitted reason.

    They are of class `log_hole` if the log has neither record nor marker there, otherwise of class
    `unexplained_gap`. Gaps of a backfill do not stop the live lane.
    """
    backfill = plan.plan_id if plan.lane == "backfill" else None
    partitions: dict[TopicPartition, list[Mismatch]] = defaultdict(list)
    for item in mismatches:  # a plan may hold two generations of a partition
        partitions[item.planned.topic_partition].append(item)
    return tuple(
        replace(_gap_finding(items, kind, gaps), backfill=backfill)
        for items in partitions.values()
        for kind, gaps in _by_class(gap for item in items for gap in item.gaps).items()
    )


def _by_class(gaps: Iterable[Gap]) -> dict[FindingClass, list[Gap]]:
    sorted_by: dict[FindingClass, list[Gap]] = {}
    for gap in gaps:
        in_log = gap.reason in ("hole", "compacted_batch")
        sorted_by.setdefault("log_hole" if in_log else "unexplained_gap", []).append(gap)
    return sorted_by


def _gap_finding(items: list[Mismatch], kind: FindingClass, gaps: list[Gap]) -> Finding:
    reasons = sorted({REASONS[g.reason] for g in gaps})
    planned = [item.planned for item in items]
    shown = ", ".join(str(r) for r in union(r.offsets for r in planned))
    return Finding(
        kind=kind,
        expected=f"a row or a reason for each of the {sum(len(r.offsets) for r in planned)} offsets"
        f" of {shown}",
        actual=f"{how_many(sum(item.rows for item in items), 'row')}; where they are missing:"
        f" {'; '.join(reasons)}",
        topic=planned[0].topic,
        topic_id=planned[0].topic_id,
        partition=planned[0].partition,
        intervals=union(g.offsets for g in gaps),
    )
