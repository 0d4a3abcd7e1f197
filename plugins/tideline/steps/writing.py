"""Hand a job to Spark behind a fence, and understand how it ended."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tideline import errors
from tideline.core.plan import BatchPlan, PlannedRange
from tideline.errors import ServiceAway, TidelineError
from tideline.json_codec import from_json, to_json
from tideline.ports import SparkAction, SparkJob, SparkResult
from tideline.steps.context import RunContext, log


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to write, with a token larger than all before it (R5)."""

    ledger_id: str
    token: int


def begin_attempt(run: RunContext) -> Attempt:
    """Take the next token; the caller holds the writer's lease.

    Raises:
        StreamBusy: It has lost the lease meanwhile.
    """
    known = run.table.newest_token(_app_id(run.ledger.read().control.ledger_id))
    control = run.ledger.next_token("writer", above=known or 0)
    return Attempt(control.ledger_id, control.token)


def _app_id(ledger_id: str) -> str:
    """Whose tokens they are, in the table's transactions: all attempts of one ledger."""
    return f"tideline:{ledger_id}"


def submit(
    run: RunContext,
    attempt: Attempt,
    action: SparkAction,
    plan: BatchPlan,
    ranges: Iterable[PlannedRange] | None = None,
    staged_rows: int = 0,
) -> SparkResult | None:
    """Run one Spark application to its end.

    Args:
        run: This run.
        attempt: Its token.
        action: What Spark has to do.
        plan: Whose rows are read or removed.
        ranges: The part of the plan that is meant; None for all of it.
        staged_rows: How many rows were staged and counted; to publish exactly those.

    Returns:
        What it reported; None if it ended well without a word.

    Raises:
        TidelineError: The class that the application reported.
        ServiceAway: It could not be started, or ended badly without a word.
    """
    ranges = plan.ranges if ranges is None else tuple(ranges)
    with tempfile.TemporaryDirectory(prefix="tideline-") as folder:  # mode 0700: holds secrets
        job = SparkJob(
            stream=run.stream.stream,
            ledger_id=attempt.ledger_id,
            plan_id=plan.plan_id if action != "remove" else f"{plan.plan_id}.removed",
            run_id=run.run_id,
            token=attempt.token,
            app_id=_app_id(attempt.ledger_id),
            table_uri=run.stream.table.uri,
            partition_by=tuple(run.stream.table.partition_by),
            isolation_level=plan.isolation_level,
            ranges=ranges,
            kafka_options=run.kafka_options,
            result_path=str(Path(folder, "result.json")),
            action=action,
            staged_rows=staged_rows,
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
        raise getattr(errors, result.error, ServiceAway)(
            f"plan {plan.plan_id}: Spark could not {action} {_shown(ranges)}: {result.message}."
            " No position has moved; the next attempt's checks tell a loss from a passing fault"
        )
    if failure is not None:
        raise failure
    if result is not None:
        log.info("%s: %s rows, table version %s", action, result.rows, result.table_version)
    return result


def _shown(ranges: tuple[PlannedRange, ...]) -> str:
    more = f" and {len(ranges) - 3} more" if len(ranges) > 3 else ""
    return f"{', '.join(map(str, ranges[:3]))}{more}"
