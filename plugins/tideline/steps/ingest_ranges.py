"""Step 4: have Spark land exactly the planned ranges, once, behind a fence."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tideline import errors
from tideline.core.ledger_state import LedgerState
from tideline.core.observation import TableObservation
from tideline.core.plan import BatchPlan
from tideline.core.result import Landing
from tideline.core.table_watch import table_findings
from tideline.errors import ReplayUnavailable, ServiceAway, TidelineError
from tideline.failpoints import reach
from tideline.json_codec import from_json, to_json
from tideline.ports import SparkJob, SparkResult
from tideline.steps.context import RunContext, log
from tideline.steps.halting import halt
from tideline.steps.landing import proven_landing
from tideline.steps.observing import plan_obstacles


def ingest_ranges(run: RunContext) -> Landing | None:
    """Land the plan; None where there is nothing to land.

    An open plan whose rows the table proves is not read again (R3). A plan that is done is
    replayed: read into a staging folder, counted, and only then put in place (R4).

    Raises:
        ResetDetected: The table is not the one that the ledger knows.
        ReplayUnavailable: Kafka cannot serve the plan as it was; the table stays as it is.
        AttemptFenced: A newer attempt has written.
        ServiceAway: Spark failed in a way that may pass.
    """
    record, plan = run.frozen_plan()
    if plan is None:
        return None
    if record.is_open:
        proven = proven_landing(run, record)
        if proven is not None:
            log.info("plan %s is in the table already, version %d", plan.plan_id, proven[0].version)
            return proven[0]
    with run.ledger.lease("writer"):
        state = run.ledger.update(lambda s: s.with_next_token())
        token, ledger_id = state.control.token, state.control.ledger_id
        table = _check_target(run, plan, state)
        _check_readable(run, plan)
        landed = {} if table.version is None else run.table.landed(plan.ranges, table.version)
        rows_there = sum(found.rows for found in landed.values())
        reach("ingest:leased")
        _submit(run, plan, ledger_id, token, rows_there)
        reach("ingest:committed")
    landing = run.table.find_landing(plan.plan_id, after_version=table.version)
    if landing is None or landing.token != token:
        raise errors.AttemptFenced(
            f"plan {plan.plan_id}: the table does not show the commit of attempt {token};"
            " run again, the ledger knows what is done",
            plan_id=plan.plan_id,
            token=token,
        )
    return landing


def _check_target(run: RunContext, plan: BatchPlan, state: LedgerState) -> TableObservation:
    """The table, after making sure that it is the one that the ledger knows (R13)."""
    table = run.table.observe()
    known_id = state.head.table_id or plan.table_id
    findings = tuple(table_findings(known_id, table, run.stream.stream, state.control.ledger_id))
    if findings:
        halt(run, findings)
    return table


def _check_readable(run: RunContext, plan: BatchPlan) -> None:
    gone = plan_obstacles(run, plan)
    if gone:
        raise ReplayUnavailable(
            f"replay_unavailable: plan {plan.plan_id} of run {plan.run_id} cannot be read as it was"
            f" frozen: {'; '.join(map(str, gone))}. The table stays as it is",
            plan_id=plan.plan_id,
            reasons=[str(o) for o in gone],
        )


def _submit(run: RunContext, plan: BatchPlan, ledger_id: str, token: int, rows_there: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tideline-") as folder:  # mode 0700: holds secrets
        job = SparkJob(
            stream=run.stream.stream,
            ledger_id=ledger_id,
            plan_id=plan.plan_id,
            run_id=plan.run_id,
            token=token,
            app_id=f"tideline:{ledger_id}",
            table_uri=run.stream.table.uri,
            partition_by=tuple(run.stream.table.partition_by),
            isolation_level=plan.isolation_level,
            ranges=plan.ranges,
            kafka_options=run.kafka_options,
            result_path=str(Path(folder, "result.json")),
            replace_landed=rows_there > 0,
            landed_rows=rows_there,
        )
        job_file = Path(folder, "job.json")
        job_file.touch(mode=0o600)
        job_file.write_text(to_json(job))
        failure: TidelineError | None = None
        try:
            run.spark.submit(str(job_file))
        except ServiceAway as error:
            failure = error
        result_file = Path(job.result_path)
        result = from_json(SparkResult, result_file.read_bytes()) if result_file.exists() else None
    if result is not None and result.error is not None:
        raise getattr(errors, result.error, ServiceAway)(result.message)
    if failure is not None:
        raise failure
    if result is not None:
        log.info("%s rows in table version %s", result.rows, result.table_version)
