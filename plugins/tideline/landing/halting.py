"""Open incidents with what is at stake, and halt where nobody has decided."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from tideline.errors import ResetDetected
from tideline.failpoints import reach
from tideline.landing.context import RunContext, log, now
from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.incident import Finding, Incident, incident_key
from tideline.model.offsets import TopicPartition
from tideline.model.plan import BatchPlan
from tideline.rules.incidents import (
    Triage,
    affected_text,
    affected_versions,
    decided_together,
    how_to_decide,
    triage,
)
from tideline.rules.positions import is_set_aside
from tideline.stream.stream import Stream

_SHOWN = 20


def open_incidents(
    run: RunContext,
    state: LedgerState,
    findings: Iterable[Finding],
    plan: BatchPlan | None = None,
) -> tuple[Incident, ...]:
    """Open an incident per finding, or attach to the one that is open already (R8).

    Args:
        state: The ledger that the findings were made against.
        findings: Of one observation.
        plan: The landed plan whose ranges the findings leave unverified, if there is one.
    """
    dated = tuple(_with_times(run, state.head, finding) for finding in findings)
    if not dated:
        return ()
    reach("halt:opening")
    opened = run.ledger.update(lambda s: s.with_incidents(dated, run.run_id, now(), plan))
    reach("halt:opened")
    keys = {incident_key(f) for f in dated}
    for overtaken in state.control.incidents:
        is_left = not opened.open_incident(overtaken.incident_id)
        if overtaken.decision is not None and overtaken.key in keys and is_left:
            log.warning("%s: it has changed since: nobody decided that", overtaken)
    return tuple(i for i in opened.control.incidents if i.key in keys)


def relevant_incidents(
    run: RunContext, state: LedgerState, findings: Iterable[Finding]
) -> tuple[Incident, ...]:
    """What was found now, and open incidents of landed plans, which no observation finds again."""
    opened = open_incidents(run, state, findings)
    ids = {i.incident_id for i in opened}
    still_open = (i for i in state.live_incidents() if i.unverified and i.incident_id not in ids)
    return (*opened, *still_open)


def triage_incidents(run: RunContext, incidents: Iterable[Incident]) -> Triage:
    """What incidents mean for this run, by decisions, policies and the topics that it follows."""
    proceed = run.stream.on_incident == "proceed"
    return triage_for(
        run.stream, incidents, proceed=proceed, run_id=run.run_id, can_ask=run.can_ask
    )


def triage_for(
    stream: Stream,
    incidents: Iterable[Incident],
    *,
    proceed: bool,
    run_id: str = "",
    can_ask: bool = False,
) -> Triage:
    """What incidents mean for a run of now, by decisions, policies and the topics of the file.

    Args:
        stream: Whose.
        incidents: Of its ledger.
        proceed: Whether the run goes on beside what nobody has decided.
        run_id: The run's; empty for one that is not there yet.
        can_ask: Whether somebody can be asked in a form.
    """
    known = tuple(incidents)
    return triage(
        known,
        policies=stream.on_reset.model_dump(),
        proceed=proceed,
        run_id=run_id,
        now=now(),
        can_ask=can_ask,
        set_aside=frozenset(i.incident_id for i in known if is_set_aside(i, stream.kafka)),
    )


def halt(run: RunContext, incidents: Iterable[Incident]) -> NoReturn:
    """Stop the run; says of each incident what was found, what it touches, what may be done.

    Raises:
        ResetDetected: Always; carries the incidents.
    """
    halting = tuple(incidents)
    texts = []
    for incident in halting[:_SHOWN]:
        affected = []
        if incident.finding.kind == "truncation":
            affected = affected_versions(run.ledger.closed_runs(), incident)
        texts.append(f"{incident}{affected_text(incident, affected)} {how_to_decide(incident)}")
    if len(halting) > _SHOWN:
        texts.append(f"and {len(halting) - _SHOWN} more: tideline incident FILE lists all")
    if run.can_ask and any(i.finding.executable for i in halting):
        texts.append("In Airflow: decide on the Dag's tab Stream, or trigger tideline_resolve.")
    if len(decided_together(halting)) < len(halting):
        texts.append(
            "One command decides about incidents that are alike: see tideline incident FILE."
        )
    raise ResetDetected("\n".join(texts), incidents=halting)


def open_and_halt(run: RunContext, state: LedgerState, findings: Iterable[Finding]) -> NoReturn:
    """Open incidents that only a decision can close, and stop the run.

    Raises:
        ResetDetected: Always; carries the incidents.
    """
    halt(run, open_incidents(run, state, findings))


def _with_times(run: RunContext, head: Head, finding: Finding) -> Finding:
    """When the records at stake were written, as far as table and log tell; best effort."""
    if finding.kind != "retention_loss" or finding.topic is None or finding.partition is None:
        return finding
    place, end = TopicPartition(finding.topic, finding.partition), finding.lost_end
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
