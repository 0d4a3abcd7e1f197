"""What each open incident means for a run, by decisions and policies (R8, R9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tideline.model.head import Head
from tideline.model.incident import Decision, Incident
from tideline.model.offsets import TopicPartition
from tideline.model.verdicts import GAP_CLASSES


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
        policies: The stream's policy per class.
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
        # The run that opened it asks, or the first run with a form. Cleared, that run asks again.
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
        elif proceed and incident.finding.is_narrow and incident.run_id != run_id:
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

    Args:
        gap: About missing offsets.
        incidents: All that are open.
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
    standing = tuple(incidents)
    return frozenset(
        p.topic_partition
        for p in head.positions
        if any(i.finding.concerns(p.topic_partition) for i in standing)
    )
