"""Turn a proposal into the run's plan, once (R1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import replace

from tideline.errors import StreamBusy, WindowUnavailable
from tideline.failpoints import reach
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import open_and_halt
from tideline.landing.observing import measure_headroom, measure_late_reads
from tideline.ledger.state import LedgerState
from tideline.model.head import Head, Headroom, reaches_text
from tideline.model.incident import Finding, Incident, Notice
from tideline.model.observation import Observation
from tideline.model.plan import BatchPlan, BatchProposal, freeze
from tideline.model.run import RunRecord
from tideline.model.wording import duration_text
from tideline.rules.advance import MOST_MEASURED, low_headroom
from tideline.rules.backfill import is_about
from tideline.rules.incidents import blocked_by
from tideline.rules.planning import move_over_coverage, plan_live
from tideline.rules.positions import is_set_aside


def freeze_live(
    run: RunContext,
    state: LedgerState,
    proposal: BatchProposal,
    left_open: tuple[Incident, ...],
    *,
    passed_over: tuple[Incident, ...] = (),
    resolved: tuple[Incident, ...] = (),
) -> RunRecord:
    """Freeze a live plan of the partitions that no incident concerns.

    Args:
        state: What the ledger held when the proposal was made.
        proposal: What the run would read if there were no incident.
        left_open: Incidents that stay open.
        passed_over: Incidents whose partitions are left out of this run only.
        resolved: Closed incidents that go into the run's record.
    """
    blocked = blocked_by((*left_open, *passed_over), state.head)
    if blocked:
        proposal = plan_live(state.head, proposal.observation, run.stream, blocked)
    headroom = _warned_headroom(run, state.head, proposal)
    late = measure_late_reads(run, state.head, proposal.ranges)
    return freeze_run(
        run,
        state,
        proposal,
        lambda head: replace(
            move_over_coverage(head, proposal.observation, blocked),
            headroom=headroom,
            read_late=late,
        ),
        resolved=resolved,
        still_open={i.key for i in left_open},
    )


def freeze_backfill(
    run: RunContext,
    state: LedgerState,
    proposal: BatchProposal,
    findings: tuple[Finding, ...],
) -> RunRecord:
    """Freeze a backfill; what can no longer be read is named first, and a policy decides.

    Decisions move the head, so they are the live lane's: a finding halts a backfill in any case.
    Records that have expired halt it unless `on_reset.retention_loss` is `accept_loss`.

    Raises:
        WindowUnavailable: Part of what was asked for has expired.
    """
    if findings:
        open_and_halt(run, state, findings)
    if refuses(run, proposal):
        gone = "; ".join(map(str, proposal.gone))
        raise WindowUnavailable(
            f"backfill {run.request}: deleted from Kafka, and not in the table: {gone}."
            f" {_offer(proposal)}, or set on_reset.retention_loss: accept_loss to read what is"
            " there",
            gone=[str(g) for g in proposal.gone],
            ranges=_as_ranges(proposal),
        )
    left_out = tuple(
        Notice("expired", g.topic, g.partition, f"deleted from Kafka, left out: {g}")
        for g in proposal.gone
    )
    for notice in left_out:
        log.warning("%s", notice)
    return freeze_run(run, state, proposal, None, notices=left_out)


def refuses(run: RunContext, proposal: BatchProposal) -> bool:
    """Whether the stream's policy keeps a backfill from reading what is left of its window."""
    return bool(proposal.gone) and run.stream.on_reset.retention_loss != "accept_loss"


def freeze_run(
    run: RunContext,
    state: LedgerState,
    proposal: BatchProposal,
    moved_head: Callable[[Head], Head] | None,
    *,
    resolved: tuple[Incident, ...] = (),
    still_open: Collection[Hashable] = (),
    notices: tuple[Notice, ...] = (),
) -> RunRecord:
    """Put the plan if absent; whoever comes second uses the winner's.

    Head, incidents and plan move in one compare-and-swap on the head that was observed (R9).

    Args:
        state: What the ledger held when the proposal was made.
        proposal: What to freeze.
        moved_head: From the head that is there to the one to store; None leaves it as it is.
        resolved: Incidents whose decisions the new head carries out, closed.
        still_open: Keys of incidents that stay open; the others are no longer found.
        notices: More to tell of the run.

    Raises:
        StreamBusy: Another run was planned, or the head moved, meanwhile.
    """
    proposed = state.runs.get(run.run_id)
    plan = freeze(
        proposal,
        stream=run.stream.stream,
        ledger_id=state.control.ledger_id,
        run_id=run.run_id,
        request=run.request,
        table_uri=run.stream.table.uri,
        now=now(),
        replaces=proposed.replaces if proposed is not None else None,
    )
    winner: RunRecord | None = None

    def put_if_absent(latest: LedgerState) -> LedgerState:
        nonlocal winner
        winner = latest.runs.get(run.run_id)
        if winner is not None and winner.status != "proposed":
            return latest
        if winner is None or _is_overtaken(run, latest, state, plan):
            raise StreamBusy("another run was planned, or the head moved, meanwhile; run again")
        winner = replace(
            winner,
            status="planned" if plan.ranges else "nothing_to_do",
            plan=plan,
            proposal=None,
            resolved=resolved,
            notices=(*winner.notices, *notices),
            updated_at=now(),
        )
        ids = {i.incident_id for i in resolved}
        seen = {i.incident_id for i in state.control.incidents}  # later ones are others' business
        vanished = (
            i.closed(_why_vanished(run, i), now())
            for i in latest.control.incidents
            if run.request.lane == "live"  # a backfill has not looked for them all
            and not i.unverified
            and i.incident_id in seen - ids
            and i.key not in still_open
            and not _is_unheard(i.finding, proposal.observation)
        )
        ended = [*resolved, *vanished, *_without_section(run, latest)]
        after = latest.with_incidents_closed(ended).with_run(winner)
        moved = latest.head if moved_head is None else moved_head(latest.head)
        return after.with_head(moved.that_knows(plan.table_id, plan.table_version))

    reach("detect:freezing")
    run.ledger.update(put_if_absent)
    reach("detect:frozen")
    assert winner is not None
    log.info("%s", f"plan {plan.plan_id} is frozen" if plan.ranges else "up to date")
    return winner


def _is_unheard(finding: Finding, observation: Observation) -> bool:
    """Whether nobody has told what a finding is about: it is not gone because of that."""
    topic = None if finding.topic is None else observation.topic(finding.topic)
    if topic is None or topic.fault is not None or finding.partition is None:
        return topic is not None and topic.fault is not None
    seen = topic.partition(finding.partition)
    return seen is not None and seen.fault is not None


def _why_vanished(run: RunContext, incident: Incident) -> str:
    if is_set_aside(incident, run.stream.kafka):
        return (
            f"the topic is no longer followed since run {run.run_id}; the position stays, and any"
            " difference is found again when the topic is added again"
        )
    return f"no longer found by run {run.run_id}"


def _without_section(run: RunContext, latest: LedgerState) -> Iterator[Incident]:
    """Incidents of what the stream file no longer asks for: nobody would carry a decision out."""
    sections: tuple[tuple[str, object, tuple[Incident, ...]], ...] = (
        ("decode", run.stream.decode, latest.decoding.incidents),
        ("current", run.stream.current, latest.folding.incidents),
    )
    for key, section, incidents in sections:
        text = f"the stream file has no {key} since run {run.run_id}; it is found again when it has"
        yield from (i.closed(text, now()) for i in incidents if section is None)


def _is_overtaken(run: RunContext, latest: LedgerState, seen: LedgerState, plan: BatchPlan) -> bool:
    """Whether the ledger has moved under a plan; a backfill needs its logs to be followed still."""
    if run.request.lane == "backfill":
        return not is_about(latest.head, plan.ranges)
    return latest.open_live_run() is not None or not latest.head.stands_at(seen.head)


def keep_headroom(run: RunContext, head: Head, proposal: BatchProposal) -> None:
    """Keep in the ledger how long retention leaves what is unread, for a run that halts."""
    if measured := _warned_headroom(run, head, proposal):
        run.ledger.update(lambda latest: latest.with_head(replace(latest.head, headroom=measured)))


def _warned_headroom(run: RunContext, head: Head, proposal: BatchProposal) -> tuple[Headroom, ...]:
    """Retention headroom as it is now; warns where it is scarce."""
    measured = measure_headroom(run, head, proposal.observation, MOST_MEASURED)
    for item in low_headroom(measured, run.stream.headroom_warning_seconds, now()):
        log.warning(
            "%s (retention.ms is %s); raise it or run more often",
            reaches_text(item.topic, item.partition, item.next_offset, item.seconds_left(now())),
            duration_text((item.retention_ms or 0) / 1000),
        )
    return measured


def _as_ranges(proposal: BatchProposal) -> list[dict[str, object]]:
    names = ("topic", "partition", "start_offset", "end_offset")
    return [{name: getattr(r, name) for name in names} for r in proposal.ranges]


def _offer(proposal: BatchProposal) -> str:
    if not proposal.ranges:
        return "Nothing is left to read. Choose a later window"
    return f"Still in Kafka: ask for ranges={json.dumps(_as_ranges(proposal))}"
