"""Hand a job to Spark behind a fence, and understand how it ended."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tideline import errors
from tideline.documents import dump, load
from tideline.errors import AttemptFenced, ServiceAway, TidelineError
from tideline.launch.job import SparkAction, SparkJob, SparkResult
from tideline.ledger.state import LedgerState
from tideline.model.offsets import CoordinateRange
from tideline.model.plan import BatchPlan
from tideline.model.run import TableCommit
from tideline.pipeline.context import RunContext, log


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to write, with a token larger than all before it (R5).

    Args:
        state: The ledger as it was when the token was given out, under the writer's lease.
    """

    state: LedgerState

    @property
    def token(self) -> int:
        """The fencing token."""
        return self.state.control.token

    @property
    def ledger_id(self) -> str:
        """Whose attempt it is."""
        return self.state.control.ledger_id


def begin_attempt(run: RunContext, ledger_id: str) -> Attempt:
    """Take the next token; the caller holds the writer's lease.

    Raises:
        StreamBusy: It has lost the lease meanwhile.
    """
    known = run.table.newest_token(_app_id(ledger_id))
    return Attempt(run.ledger.next_token("writer", above=known or 0))


def _app_id(ledger_id: str) -> str:
    """Delta transaction app id, shared by all attempts of one ledger."""
    return f"tideline:{ledger_id}"


def commit(run: RunContext, job: SparkJob, *, after_version: int | None) -> TableCommit:
    """Have Spark write, have the commit made, and find it in the table.

    Delta skips an older attempt's commit without an error, so only the table proves it.

    Args:
        run: This run.
        job: What Spark has to do.
        after_version: The table's version before; None where there was no table.

    Raises:
        AttemptFenced: A newer attempt has written; nothing of this one was published.
        TidelineError: As `submit` raises.
    """
    submit(run, job)
    if job.action == "append_files" and after_version is not None:
        run.table.add_files(job, after_version)
    made = run.table.find_commit(job.plan_id, after_version)
    if made is None or made.token != job.token:
        raise AttemptFenced(
            f"plan {job.plan_id}: the table does not show the commit of attempt {job.token}:"
            " a newer one has written; run again, the ledger knows what is done",
            plan_id=job.plan_id,
            token=job.token,
        )
    log.info("%s: %d rows, table version %d", job.action, made.rows, made.version)
    return made


def removal_id(name: str) -> str:
    """What the commit of a removal carries for a plan id: it must not pass for a landing."""
    return f"{name}.removed"


def read_job(
    run: RunContext,
    attempt: Attempt,
    action: SparkAction,
    plan: BatchPlan,
    *,
    staged_rows: int = 0,
    partition_by: Sequence[str] = (),
) -> SparkJob:
    """What Spark is given to land a plan.

    Args:
        run: This run.
        attempt: Its token.
        action: What Spark has to do.
        plan: Whose rows are read.
        staged_rows: How many rows were staged and counted; to publish exactly those.
        partition_by: The table's partition columns; to write data files for it.
    """
    job = _job(run, attempt, action, plan.plan_id, plan.ranges)
    return replace(
        job,
        isolation_level=plan.isolation_level,
        staged_rows=staged_rows,
        partition_by=tuple(partition_by),
    )


def removal_job(
    run: RunContext, attempt: Attempt, commit_id: str, ranges: Iterable[CoordinateRange]
) -> SparkJob:
    """What Spark is given to remove the rows at coordinates.

    Args:
        run: This run.
        attempt: Its token.
        commit_id: What the commit carries, from `removal_id`.
        ranges: Whose rows are removed.
    """
    return _job(run, attempt, "remove", commit_id, ranges)


def _job(
    run: RunContext,
    attempt: Attempt,
    action: SparkAction,
    commit_id: str,
    ranges: Iterable[CoordinateRange],
) -> SparkJob:
    return SparkJob(
        stream=run.stream.stream,
        ledger_id=attempt.ledger_id,
        plan_id=commit_id,
        run_id=run.run_id,
        token=attempt.token,
        app_id=_app_id(attempt.ledger_id),
        table_uri=run.stream.table.uri,
        isolation_level=run.stream.kafka.isolation_level,
        ranges=tuple(r.as_coordinates for r in ranges),
        kafka_options=run.kafka_options,
        result_path="",
        action=action,
    )


def submit(run: RunContext, job: SparkJob) -> SparkResult | None:
    """Run one Spark application to its end.

    Args:
        run: This run.
        job: What to do; the path of the result is set here.

    Returns:
        What it reported; None if it ended well without a word.

    Raises:
        TidelineError: The class that the application reported.
        ServiceAway: It could not be started, or ended badly without a word.
    """
    with tempfile.TemporaryDirectory(prefix="tideline-") as folder:  # mode 0700: holds secrets
        job_file, result_file = Path(folder, "job.json"), Path(folder, "result.json")
        job_file.touch(mode=0o600)
        job_file.write_text(dump(replace(job, result_path=str(result_file))))
        failure: TidelineError | None = None
        try:
            run.spark.submit(str(job_file))
        except ServiceAway as error:
            failure = error
        result = None
        if result_file.exists():
            result = load(SparkResult, result_file.read_bytes(), f"result file {result_file}")
    if result is not None and result.error is not None:
        raise getattr(errors, result.error, ServiceAway)(
            f"plan {job.plan_id}: Spark could not {job.action} {_shown(job.ranges)}:"
            f" {result.message}."
            " No position has moved; the next attempt's checks tell a loss from a passing fault"
        )
    if failure is not None:
        raise failure
    return result


def _shown(ranges: tuple[CoordinateRange, ...]) -> str:
    more = f" and {len(ranges) - 3} more" if len(ranges) > 3 else ""
    return f"{', '.join(map(str, ranges[:3]))}{more}"
