"""Open incidents with what is at stake, and halt where nobody has decided."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from tideline.errors import ResetDetected
from tideline.failpoints import reach
from tideline.model.coverage import intersect
from tideline.model.head import Head
from tideline.model.incident import Finding, Incident, incident_key
from tideline.model.offsets import TopicPartition
from tideline.model.plan import BatchPlan
from tideline.model.run import RunRecord
from tideline.pipeline.context import RunContext, log, now
from tideline.rules.triage import Triage, triage

_SHOWN = 20


def open_incidents(
    run: RunContext, findings: Iterable[Finding], plan: BatchPlan | None = None
) -> tuple[Incident, ...]:
    """An incident per finding: a new one, or the one that is open already.

    A plan is the landed one whose ranges the findings put in doubt, if there is one.
    """
    found = tuple(_with_times(run, finding) for finding in findings)
    if found:
        reach("halt:opening")
    state = run.ledger.update(lambda s: s.with_incidents(found, run.run_id, now(), plan))
    if found:
        reach("halt:opened")
    keys = {incident_key(f) for f in found}
    return tuple(i for i in state.control.incidents if i.key in keys)


def triage_incidents(run: RunContext, incidents: Iterable[Incident]) -> Triage:
    """What incidents mean for this run, by decisions and the stream's policies."""
    return triage(
        incidents,
        policies=run.stream.on_reset.model_dump(),
        proceed=run.stream.on_incident == "proceed",
        run_id=run.run_id,
        now=now(),
        can_ask=run.can_ask,
    )


def blocked_by(incidents: tuple[Incident, ...], head: Head) -> frozenset[TopicPartition]:
    """The partitions that incidents keep from moving."""
    return frozenset(
        p.topic_partition
        for p in head.positions
        if any(i.finding.concerns(p.topic_partition) for i in incidents)
    )


def halt(run: RunContext, incidents: Iterable[Incident]) -> NoReturn:
    """Stop the run; says of each incident what was found, what it touches, what may be done.

    Raises:
        ResetDetected: Always; carries the incidents.
    """
    found = tuple(incidents)
    texts = []
    for incident in found[:_SHOWN]:
        affected = []
        if incident.finding.kind == "truncation":
            affected = affected_versions(run.ledger.closed_runs(), incident)
        texts.append(f"{incident}{affected_text(incident, affected)} {how_to_decide(incident)}")
    if len(found) > _SHOWN:
        texts.append(f"and {len(found) - _SHOWN} more: tideline incident FILE lists them")
    raise ResetDetected("\n".join(texts), incidents=found)


def how_to_decide(incident: Incident) -> str:
    """The command that answers an incident."""
    choices = [c for c in incident.finding.choices if c != "fail"]
    if not choices:
        return ""
    return (
        f"To decide: tideline resolve FILE --incident {incident.incident_id} --choice"
        f" {'|'.join(choices)} --reason TEXT; then clear the run or wait for the next."
    )


def affected_versions(
    closed: Iterable[RunRecord], incident: Incident
) -> list[tuple[int, RunRecord]]:
    """Table versions that hold rows at the offsets at stake, with the runs that wrote them.

    After a truncation these are rows that the log no longer has; after a retention loss there are
    none.

    Args:
        closed: Every closed run.
        incident: What was found.
    """
    finding = incident.finding
    if not finding.intervals and finding.kind not in ("topic_recreated", "topic_missing"):
        return []
    found = {}
    for record in closed:
        if record.table_commit is None:
            continue
        for verified in record.verified:
            planned = verified.planned
            same = planned.topic_id == finding.topic_id
            if not same or not finding.concerns(planned.topic_partition):
                continue
            if not finding.intervals or intersect([planned.offsets], finding.intervals):
                found[record.table_commit.version] = record
    return sorted(found.items())


def affected_text(incident: Incident, affected: list[tuple[int, RunRecord]]) -> str:
    """One sentence about landed rows that the finding touches."""
    parts = []
    if incident.unverified:
        shown = ", ".join(str(r) for r in incident.unverified[:5])
        parts.append(f"unverified rows of plan {incident.plan_id} at {shown}")
    if affected and incident.finding.kind == "truncation":
        shown = ", ".join(f"{version} (run {r.run_id})" for version, r in affected[:5])
        more = f" and {len(affected) - 5} more" if len(affected) > 5 else ""
        parts.append(f"rows that the log no longer has, in table version {shown}{more}")
    return f" Touched in the table: {'; '.join(parts)}." if parts else ""


def _with_times(run: RunContext, finding: Finding) -> Finding:
    """When the records at stake were written, as far as table and log tell; a courtesy."""
    if finding.kind != "retention_loss" or finding.topic is None or finding.partition is None:
        return finding
    place, end = TopicPartition(finding.topic, finding.partition), finding.lost_end
    head = run.ledger.read().head
    position = next((p for p in head.positions if p.topic_partition == place), None)
    if position is None or end is None:
        return finding
    with suppress(Exception):
        return replace(
            finding,
            lost_from=run.table.newest_record(position.identity),
            lost_until=run.kafka.written_at({place: end})[place],
        )
    log.warning("%s: when the records at stake were written is unknown", finding.place)
    return finding
