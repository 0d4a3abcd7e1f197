"""What open incidents mean for a run, and what they say to people.

`triage` sorts them by who decides: a person, a policy, or nobody yet (R8, R9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tideline.model.head import Head
from tideline.model.incident import Decision, Incident, class_entry, help_on
from tideline.model.offsets import TopicPartition, intersect
from tideline.model.run import RunRecord
from tideline.model.verdicts import GAP_CLASSES
from tideline.model.wording import first_few


@dataclass(frozen=True, slots=True)
class Triage:
    """Open incidents, sorted by what a run does about them.

    Args:
        halting: Undecided, and the policy is `fail`: the run halts.
        asking: Undecided, and the policy is `approve`: the run asks.
        decided: A person or a policy has decided: the run executes the decision.
        left_open: Another run halts or asks, or nobody until their topic is followed again: this
            run goes on without their partitions (R8).
    """

    halting: tuple[Incident, ...] = ()
    asking: tuple[Incident, ...] = ()
    decided: tuple[Incident, ...] = ()
    left_open: tuple[Incident, ...] = ()


def triage(
    incidents: Iterable[Incident],
    *,
    policies: Mapping[str, str],
    proceed: bool,
    run_id: str,
    now: datetime,
    can_ask: bool = False,
    set_aside: frozenset[str] = frozenset(),
) -> Triage:
    """Sort open incidents by what a run does about them (R8, R9).

    Args:
        incidents: Open ones.
        proceed: Whether runs may land the other partitions while an incident is open.
        run_id: This run; it may leave open only incidents that another run opened.
        now: The time of decisions by policy, UTC-aware.
        can_ask: Whether this run has a form to ask with.
        set_aside: Ids of incidents about topics that the stream file does not mean any more:
            undecided, they halt nobody, and their decision waits until the topic is put back.
    """
    triaged: dict[str, list[Incident]] = {n: [] for n in Triage.__dataclass_fields__}
    for incident in incidents:
        policy = policies[incident.finding.kind]
        undecided = incident.decision is None
        asks = policy == "approve" and len(incident.finding.choices) > 1
        # the run that opened it asks, or the first run with a form; cleared, that run asks again
        is_its_turn = undecided and (
            incident.run_id == run_id or (can_ask and incident.asked_in is None)
        )
        if incident.is_decided:
            triaged["decided"].append(incident)
        elif undecided and policy in incident.finding.choices and policy not in ("fail", "approve"):
            by_policy = Decision(policy, "policy", now, f"on_reset.{incident.finding.kind}")
            triaged["decided"].append(replace(incident, decision=by_policy))
        elif incident.incident_id in set_aside:
            triaged["left_open"].append(incident)
        elif asks and (is_its_turn or incident.asked_in == run_id):
            triaged["asking"].append(incident)
        elif proceed and incident.finding.is_of_one_topic and incident.run_id != run_id:
            triaged["left_open"].append(incident)
        elif asks and undecided:
            triaged["asking"].append(incident)
        else:
            triaged["halting"].append(incident)
    return Triage(**{name: tuple(items) for name, items in triaged.items()})


def without_doubted(gap: Incident, incidents: Iterable[Incident]) -> Incident:
    """A gap's incident without the ranges in which the log itself is doubted.

    There accepting a gap proves no row: the other incident's decision removes them. It says nothing
    about rows of other plans.
    """
    doubted = {
        (rows.plan_id, planned.identity)
        for i in incidents
        if i.finding.kind not in GAP_CLASSES
        for rows in i.plans
        for planned in rows.ranges
    }
    sure = tuple(r for r in gap.unverified if (gap.plan_id, r.identity) not in doubted)
    return replace(gap, unverified=sure)


def blocked_by(incidents: Iterable[Incident], head: Head) -> frozenset[TopicPartition]:
    """The partitions that incidents keep from moving."""
    known = tuple(incidents)
    return frozenset(
        p.topic_partition
        for p in head.positions
        if any(i.finding.concerns(p.topic_partition) for i in known)
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
