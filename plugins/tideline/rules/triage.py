"""What each open incident means for a run, by decisions and policies (R8, R9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tideline.model.head import Head
from tideline.model.incident import Decision, Incident
from tideline.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class Triage:
    """Open incidents by what they mean for a run.

    Args:
        halting: Nobody has decided, and the policy is `fail`.
        asking: Nobody has decided, and the policy is to ask.
        decided: A person or a policy has; the run executes it.
        left_open: Others' business: this run goes on without their partitions (R8).
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
) -> Triage:
    """What each open incident means for a run (R8, R9).

    Args:
        incidents: Open ones.
        policies: The stream's policy per class.
        proceed: Whether later runs land the healthy partitions.
        run_id: This run; an incident that another one opened may be left open.
        now: When a policy decides.
        can_ask: Whether this run has a form to ask with.
    """
    found: dict[str, list[Incident]] = {n: [] for n in Triage.__dataclass_fields__}
    for incident in incidents:
        policy = policies[incident.finding.kind]
        undecided = incident.decision is None
        asks = policy == "approve" and len(incident.finding.choices) > 1
        # Its finder asks, or whoever comes first; the run that asked, cleared, asks again.
        is_its_turn = undecided and (
            incident.run_id == run_id or (can_ask and incident.asked_in is None)
        )
        if incident.is_decided:
            found["decided"].append(incident)
        elif undecided and policy in incident.finding.choices and policy not in ("fail", "approve"):
            by_policy = Decision(policy, "policy", now, f"on_reset.{incident.finding.kind}")
            found["decided"].append(replace(incident, decision=by_policy))
        elif asks and (is_its_turn or incident.asked_in == run_id):
            found["asking"].append(incident)
        elif proceed and incident.finding.is_narrow and incident.run_id != run_id:
            found["left_open"].append(incident)
        elif asks and undecided:
            found["asking"].append(incident)
        else:
            found["halting"].append(incident)
    return Triage(**{name: tuple(items) for name, items in found.items()})


def blocked_by(incidents: Iterable[Incident], head: Head) -> frozenset[TopicPartition]:
    """The partitions that incidents keep from moving."""
    standing = tuple(incidents)
    return frozenset(
        p.topic_partition
        for p in head.positions
        if any(i.finding.concerns(p.topic_partition) for i in standing)
    )
