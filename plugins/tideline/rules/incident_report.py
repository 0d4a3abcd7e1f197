"""What an incident touches in the table, and how a person answers it, in words."""

from __future__ import annotations

from collections.abc import Iterable

from tideline.model.coverage import intersect
from tideline.model.incident import Incident
from tideline.model.run import RunRecord
from tideline.model.runbook import class_entry
from tideline.model.wording import first_few


def how_to_decide(incident: Incident) -> str:
    """The command that answers an incident; empty where nothing can be decided."""
    choices = [c for c in incident.finding.choices if c != "fail"]
    if not choices:
        return ""
    return (
        f"To decide: tideline resolve FILE --incident {incident.incident_id} --choice"
        f" {'|'.join(choices)} --reason TEXT; then clear the run or wait for the next."
    )


def where_to_read(incident: Incident) -> str:
    """The runbook's entry: what to look at, and how to see that it is over."""
    return f"Runbook: {class_entry(incident.finding.kind)}"


def affected_versions(
    closed: Iterable[RunRecord], incident: Incident
) -> list[tuple[int, RunRecord]]:
    """Table versions that hold rows at the offsets at stake, with the runs that wrote them.

    After a truncation these are rows that the log no longer has. After a retention loss there are
    none.

    Args:
        closed: Every closed run.
        incident: What was found.
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
