"""Step 2: hold the ledger against the cluster; freeze the plan if nothing speaks against it."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

from tideline.core.detection import find_resets
from tideline.core.incident import Finding
from tideline.core.ledger_state import LedgerState, incident_key
from tideline.core.plan import BatchProposal, freeze
from tideline.core.result import RunRecord
from tideline.errors import ServiceAway, StreamBusy
from tideline.failpoints import reach
from tideline.steps.context import RunContext, log, now
from tideline.steps.halting import halt
from tideline.steps.plan_offset_ranges import plan_offset_ranges, propose

_STALE_AFTER = timedelta(seconds=60)
"""A look older than this is taken again: the task may have waited, or been cleared."""


def detect_earliest_reset(run: RunContext) -> RunRecord:
    """The run's record with its frozen plan (R1), or with nothing to do.

    Passing faults are looked at again until they settle; they never become a verdict.

    Raises:
        ResetDetected: Something was found; an incident is open and no position moved.
        ServiceAway: The cluster did not settle in time.
    """
    # Another run's proposal replaces one that was never frozen: then plan again.
    record = run.record() or plan_offset_ranges(run)
    if record.status != "proposed":
        return record
    state, proposal, findings = _settled(run, record)
    if findings:
        halt(run, findings)
    plan = freeze(
        proposal,
        stream=run.stream.stream,
        ledger_id=state.control.ledger_id,
        run_id=run.run_id,
        request=run.request,
        table_uri=run.stream.table.uri,
        now=now(),
    )

    def put_if_absent(latest: LedgerState) -> LedgerState:
        """Whoever comes second uses the winner's plan."""
        current = latest.runs.get(run.run_id)
        if current is not None and current.status != "proposed":
            return latest
        moved = latest.head.digest != proposal.head_digest
        if current is None or latest.open_live_run() is not None or moved:
            raise StreamBusy("another live run was planned meanwhile; run again")
        frozen = replace(
            current,
            status="planned" if plan.ranges else "nothing_to_do",
            plan=plan,
            proposal=None,
            updated_at=now(),
        )
        return latest.without_incidents("no longer found").with_run(frozen)

    run.ledger.update(put_if_absent)
    reach("detect:frozen")
    winner = run.record()
    assert winner is not None
    log.info("no findings; %s", f"plan {plan.plan_id} is frozen" if plan.ranges else "up to date")
    return winner


def _settled(
    run: RunContext, record: RunRecord
) -> tuple[LedgerState, BatchProposal, tuple[Finding, ...]]:
    """A fresh proposal made from today's head, and findings that two looks agree on."""
    deadline = time.monotonic() + run.kafka.patience_seconds
    pause_seconds = 0.2
    last_verdict: set[tuple[object, ...]] = set()
    while True:
        state = run.ledger.read()
        proposal = record.proposal
        assert proposal is not None
        fresh = now() - proposal.observation.observed_at < _STALE_AFTER
        if fresh and proposal.head_digest == state.head.digest:
            findings = find_resets(
                state.head,
                proposal.observation,
                stream=run.stream.stream,
                ledger_id=state.control.ledger_id,
            )
            passing = [f for f in findings if f.kind == "passing"]
            verdict = {incident_key(f) for f in findings}
            if not passing and verdict == last_verdict:
                return state, proposal, findings
            if time.monotonic() > deadline:
                raise ServiceAway(
                    "the cluster did not settle: " + " ".join(str(f) for f in findings),
                    places=[f.place for f in findings],
                )
            last_verdict = verdict
            log.info("looking again: %s", findings[0] if findings else "nothing is left")
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, 5.0)
        record = propose(run)
