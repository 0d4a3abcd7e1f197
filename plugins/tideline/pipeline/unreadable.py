"""Records that Spark cannot read: name them, and halt unless nothing is lost by that."""

from __future__ import annotations

from tideline.errors import ReplayUnavailable, UnreadableRecords
from tideline.model.incident import Incident
from tideline.model.wording import first_few
from tideline.pipeline.context import RunContext, log
from tideline.pipeline.incidents import halt, open_incidents, triage_incidents
from tideline.pipeline.only_copies import unreadable_without_rows
from tideline.rules.unreadable import unreadable_findings


def meet_unreadable(run: RunContext, error: UnreadableRecords) -> tuple[Incident, ...]:
    """Open incidents about records that Spark cannot read and that have no row, and halt.

    Args:
        run: This run.
        error: What Spark found.

    Returns:
        The incidents, if a policy or a person accepts the loss of all of it already; none if a
        good row stands at each of these offsets: then nothing is lost.

    Raises:
        ResetDetected: A person has to decide.
        ReplayUnavailable: A closed run is read again. The table holds what it landed.
    """
    state, record, plan = run.frozen()
    if plan is None:
        raise error
    if not record.is_open:
        raise ReplayUnavailable(
            f"replay_unavailable: plan {plan.plan_id} of run {plan.run_id} cannot be read again:"
            f" {first_few(error.unreadable, separator='; ')}. The table stays as it is",
            plan_id=plan.plan_id,
        ) from error
    lost = unreadable_without_rows(run, plan, error.unreadable)
    if not lost:
        return ()
    findings = unreadable_findings(lost, plan)
    incidents = open_incidents(run, state, findings, plan)
    decided = triage_incidents(run, incidents).decided
    accepted = [i for i in decided if i.decision and i.decision.choice == "accept_loss"]
    if len(accepted) < len(incidents):
        halt(run, incidents)
    log.warning("left out and recorded as lost: %s", first_few(lost, separator="; "))
    return tuple(accepted)
