"""From failed reads to findings about unreadable records; and what an incident says to people.

Spark names no offset where it fails, so failing ranges are read in halves until single offsets are
left. An offset counts if it fails twice by itself; an error that may pass is raised and proves
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tideline.model.incident import Finding, Incident, class_entry, help_on
from tideline.model.offsets import (
    CoordinateRange,
    intersect,
    union,
)
from tideline.model.places import Places
from tideline.model.plan import BatchPlan
from tideline.model.run import RunRecord
from tideline.model.spark_job import Unreadable
from tideline.model.wording import first_few

Attempt = Callable[[Sequence[CoordinateRange]], str | None]
"""Reads ranges; why a record cannot be read, None if all can. Raises what may pass."""


def narrow(
    ranges: Sequence[CoordinateRange],
    attempt: Attempt,
    *,
    most: int,
    is_late: Callable[[], bool] = lambda: False,
) -> tuple[Unreadable, ...]:
    """The offsets of failed ranges that fail by themselves, twice, in the order of the ranges.

    If the first half of a failed part can be read, the second half is not read as a whole. Reading
    costs at most about twice the ranges' length and a few single offsets for each that is found.

    Args:
        ranges: At most one per partition; reading all of them has failed.
        attempt: Reads a part of them, at most one piece per partition.
        most: Single offsets after which it ends; others may be left.
        is_late: Whether to end with what is found by now.

    Returns:
        Unreadable offsets, adjacent ones with the same reason joined; empty if what failed has
        passed.
    """
    found: list[Unreadable] = []
    failing = [tuple(ranges)]
    while failing and len(found) < most and not is_late():
        part = failing.pop()
        if sum(len(r.offsets) for r in part) == 1:
            reason = attempt(part) and attempt(part)
            if reason:
                found.append(Unreadable(part[0], reason))
            continue
        first, second = halves(part)
        if attempt(first) is None:
            failing.append(second)
            continue
        if attempt(second) is not None:
            failing.append(second)
        failing.append(first)
    return _joined(found)


def halves(
    part: Sequence[CoordinateRange],
) -> tuple[tuple[CoordinateRange, ...], tuple[CoordinateRange, ...]]:
    """The ranges as two parts of nearly the same number of offsets; at most one range is cut."""
    left = sum(len(r.offsets) for r in part) // 2
    first: list[CoordinateRange] = []
    second: list[CoordinateRange] = []
    for item in part:
        cut = item.start_offset + min(left, len(item.offsets))
        left -= cut - item.start_offset
        first.append(replace(item, end_offset=cut))
        second.append(replace(item, start_offset=cut))
    return tuple(r for r in first if len(r.offsets)), tuple(r for r in second if len(r.offsets))


def _joined(found: Sequence[Unreadable]) -> tuple[Unreadable, ...]:
    by_place: dict[tuple[CoordinateRange, str], list[Unreadable]] = {}
    for item in found:
        by_place.setdefault((_place(item.range), item.reason), []).append(item)
    return tuple(
        Unreadable(place.at(r), reason)
        for (place, reason), items in by_place.items()
        for r in union(item.range.offsets for item in items)
    )


def _place(at: CoordinateRange) -> CoordinateRange:
    return replace(at, start_offset=0, end_offset=0)


def unreadable_findings(found: Iterable[Unreadable], plan: BatchPlan) -> tuple[Finding, ...]:
    """One finding per partition; what a backfill cannot read does not stop the live lane."""
    by_place: dict[CoordinateRange, list[Unreadable]] = {}
    for item in found:
        by_place.setdefault(_place(item.range), []).append(item)
    return tuple(
        Finding(
            kind="unreadable_record",
            expected="records that Spark's Kafka source can read",
            actual="; ".join(sorted({item.reason for item in items})),
            topic=place.topic,
            topic_id=place.topic_id,
            partition=place.partition,
            intervals=union(item.range.offsets for item in items),
            backfill=plan.plan_id if plan.lane == "backfill" else None,
        )
        for place, items in by_place.items()
    )


def without_rows(found: Iterable[Unreadable], standing: Places) -> tuple[Unreadable, ...]:
    """What is left of unreadable offsets without those whose row stands in the table."""
    return tuple(
        replace(item, range=left) for item in found for left in standing.rest([item.range])
    )


def how_to_decide(incident: Incident, alike: int = 1) -> str:
    """The command that answers an incident; empty where nothing can be decided.

    Args:
        alike: How many incidents are alike, this one among them; one command answers them all.
    """
    choices = incident.finding.executable
    if not choices:
        return ""
    which = incident.incident_id + (f" --all {alike}" if alike > 1 else "")
    return (
        f"To decide{f' about all {alike}' if alike > 1 else ''}: tideline resolve FILE --incident"
        f" {which} --choice {'|'.join(choices)} --reason TEXT; then clear the run or wait for the"
        " next."
    )


def decided_together(incidents: Iterable[Incident]) -> list[tuple[Incident, ...]]:
    """Incidents that one decision may answer, together: of one class and topic, decided alike."""
    groups: dict[tuple[object, ...], tuple[Incident, ...]] = {}
    for incident in incidents:
        found = incident.finding
        decided = incident.decision.choice if incident.decision and incident.is_decided else None
        key = (found.kind, found.topic, found.topic_id, found.decidable, found.backfill, decided)
        groups[key] = (*groups.get(key, ()), incident)
    return list(groups.values())


def where_to_read(incident: Incident) -> str:
    """The runbook's entry: what to look at, and how to see that it is over."""
    return f"Runbook: {help_on(class_entry(incident.finding.kind))}"


def affected_versions(
    closed: Iterable[RunRecord], incident: Incident
) -> list[tuple[int, RunRecord]]:
    """Table versions that hold rows at the offsets at stake, with the runs that wrote them.

    After a truncation these are rows that the log no longer has. After a retention loss there are
    none.
    """
    finding = incident.finding
    if not finding.intervals and finding.kind not in ("topic_recreated", "topic_missing"):
        return []
    affected = {}
    for record in closed:
        if record.table_commit is None:
            continue
        for verified in record.verified:
            planned = verified.planned
            same = planned.topic_id == finding.topic_id
            if not same or not finding.concerns(planned.topic_partition):
                continue
            if not finding.intervals or intersect([planned.offsets], finding.intervals):
                affected[record.table_commit.version] = record
    return sorted(affected.items())


def affected_text(incident: Incident, affected: list[tuple[int, RunRecord]]) -> str:
    """One sentence about landed rows that the finding touches; empty if there are none."""
    parts = [
        f"unverified rows of plan {rows.plan_id} at {first_few(rows.ranges)}"
        for rows in incident.plans
    ]
    if affected and incident.finding.kind == "truncation":
        shown = first_few(f"{version} (run {r.run_id})" for version, r in affected)
        parts.append(f"rows that the log no longer has, in table version {shown}")
    return f" Touched in the table: {'; '.join(parts)}." if parts else ""
