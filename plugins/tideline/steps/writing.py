"""Hand a job to Spark behind a fence, and understand how it ended."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tideline import errors
from tideline.core.plan import BatchPlan, PlannedRange
from tideline.core.result import Landing
from tideline.errors import AttemptFenced, ServiceAway, TidelineError
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


def commit(
    run: RunContext,
    attempt: Attempt,
    action: SparkAction,
    plan: BatchPlan,
    ranges: Iterable[PlannedRange] | None = None,
    *,
    after_version: int | None,
    staged_rows: int = 0,
) -> Landing:
    """Have Spark write to the table, and find the commit there.

    Delta skips an older attempt's write without an error, so only the table proves it.

    Args:
        run: This run.
        attempt: Its token.
        action: What Spark has to do.
        plan: Whose rows are read or removed.
        ranges: The part of the plan that is meant; None for all of it.
        after_version: The table's version before; None where there was no table.
        staged_rows: How many rows were staged and counted; to publish exactly those.

    Raises:
        AttemptFenced: A newer attempt has written; nothing of this one was published.
        TidelineError: As `submit` raises.
    """
    submit(run, attempt, action, plan, ranges, staged_rows)
    landing = run.table.find_landing(commit_id(plan, action), after_version)
    if landing is None or landing.token != attempt.token:
        raise AttemptFenced(
            f"plan {plan.plan_id}: the table does not show the commit of attempt {attempt.token}:"
            " a newer one has written; run again, the ledger knows what is done",
            plan_id=plan.plan_id,
            token=attempt.token,
        )
    log.info("%s: %d rows, table version %d", action, landing.rows, landing.version)
    return landing


def commit_id(plan: BatchPlan, action: SparkAction) -> str:
    """The plan's id that a commit carries: a removal must not pass for the plan's landing."""
    return plan.plan_id if action != "remove" else f"{plan.plan_id}.removed"


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
            plan_id=commit_id(plan, action),
            run_id=run.run_id,
            token=attempt.token,
            app_id=_app_id(attempt.ledger_id),
            table_uri=run.stream.table.uri,
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
    return result


def _shown(ranges: tuple[PlannedRange, ...]) -> str:
    more = f" and {len(ranges) - 3} more" if len(ranges) > 3 else ""
    return f"{', '.join(map(str, ranges[:3]))}{more}"
