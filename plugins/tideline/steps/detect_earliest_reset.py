"""Step 2: hold the ledger against the cluster; freeze the plan if nothing speaks against it."""

from __future__ import annotations

import time
from dataclasses import replace

from tideline.core.detection import find_resets
from tideline.core.incident import Finding
from tideline.core.ledger_state import LedgerState, incident_key
from tideline.core.plan import BatchProposal, freeze
from tideline.core.result import RunRecord
from tideline.errors import ResetDetected, ServiceAway, StreamBusy
from tideline.failpoints import reach
from tideline.steps.context import RunContext, log, now
from tideline.steps.plan_offset_ranges import propose


def detect_earliest_reset(run: RunContext) -> RunRecord:
    """The run's record with its frozen plan (R1), or with nothing to do.

    Passing faults are looked at again until they settle; they never become a verdict.

    Raises:
        ResetDetected: Something was found; an incident is open and no position moved.
        ServiceAway: The cluster did not settle in time.
    """
    record = run.record()
    assert record is not None, "plan_offset_ranges comes first"
    if record.status != "proposed":
        return record
    state, proposal = _settled(run, record)
    findings = _find(run, state, proposal)
    if findings:
        _halt(run, findings)
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
        if current is None or current.status != "proposed":
            return latest
        other = latest.open_live_run()
        if other is not None or latest.head.digest != proposal.head_digest:
            raise StreamBusy("another live run was planned meanwhile; run again")
        frozen = replace(
            current,
            status="planned" if plan.ranges else "nothing_to_do",
            plan=plan,
            proposal=None,
            updated_at=now(),
        )
        return latest.without_incidents(latest.control.incidents).with_run(frozen)

    run.ledger.update(put_if_absent)
    reach("detect:frozen")
    winner = run.record()
    assert winner is not None
    return winner


def _settled(run: RunContext, record: RunRecord) -> tuple[LedgerState, BatchProposal]:
    """A proposal made from today's head, with no answer in flux."""
    deadline = time.monotonic() + run.kafka.patience_seconds
    pause_seconds = 0.2
    while True:
        state = run.ledger.read()
        proposal = record.proposal
        assert proposal is not None
        if proposal.head_digest == state.head.digest:
            passing = [f for f in _find(run, state, proposal) if f.kind == "passing"]
            if not passing:
                return state, proposal
            if time.monotonic() > deadline:
                raise ServiceAway(
                    "the cluster did not settle: " + " ".join(str(f) for f in passing),
                    places=[f.place for f in passing],
                )
            log.info("looking again: %s", passing[0])
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, 5.0)
        record = propose(run)


def _find(run: RunContext, state: LedgerState, proposal: BatchProposal) -> tuple[Finding, ...]:
    return find_resets(
        state.head,
        proposal.observation,
        stream=run.stream.stream,
        ledger_id=state.control.ledger_id,
    )


def _halt(run: RunContext, findings: tuple[Finding, ...]) -> None:
    for kind in sorted({f.kind for f in findings}):
        policy = getattr(run.stream.on_reset, kind)
        if policy != "fail":
            log.warning("on_reset.%s: %s is not acted on yet, the run fails", kind, policy)
    state = run.ledger.update(lambda s: s.with_incidents(findings, run.run_id, now()))
    keys = {incident_key(f) for f in findings}
    incidents = [i for i in state.control.incidents if incident_key(i.finding) in keys]
    raise ResetDetected("\n".join(str(f) for f in findings), incidents=incidents)
