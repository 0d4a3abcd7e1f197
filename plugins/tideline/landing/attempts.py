"""Begin an attempt behind a fence, hand a job to Spark, and understand how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TypeVar

from tideline.documents import dump, load
from tideline.errors import (
    AttemptFenced,
    CommitConflict,
    Halted,
    ServiceAway,
    UnreadableRecords,
    VerificationFailed,
    reported_error,
)
from tideline.landing.context import RunContext
from tideline.landing.halting import open_and_halt
from tideline.landing.proof import foreign_changes
from tideline.launch.runtime import PrivateFolder
from tideline.ledger.state import LedgerState
from tideline.model.offsets import CoordinateRange
from tideline.model.places import Places
from tideline.model.plan import BatchPlan
from tideline.model.spark_job import (
    DecodeJob,
    DecodeResult,
    SparkJob,
    SparkResult,
)
from tideline.model.wording import first_few
from tideline.table.schema import TableChange, app_id
from tideline.table.table_port import TablePort

Answer = TypeVar("Answer", SparkResult, DecodeResult)

_NO_MEMORY = re.compile(
    r"OutOfMemoryError|out of memory|memory limits|exit(?:ed with)? (?:code|status):? (?:52|137)\b"
)
"""52 is how Spark's executors end without memory, 137 is SIGKILL, as the kernel sends it then."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to write, with a token larger than all before it (R5).

    Args:
        run: Whose attempt it is.
        state: The ledger as it was when the token was given out, under the writer's lease.
    """

    run: RunContext
    state: LedgerState

    def change(self, commit_id: str, ranges: Iterable[CoordinateRange] = ()) -> TableChange:
        """A change of a table, with this attempt's token.

        Args:
            commit_id: A plan's; or what `table.schema` makes for a removal, a compaction, or a
                fence, which touches no row: its token keeps older attempts out (R5).
            ranges: Where rows stand that go, or that others replace.
        """
        return TableChange(
            ledger_id=self.state.control.ledger_id,
            commit_id=commit_id,
            run_id=self.run.run_id,
            token=self.state.control.token,
            ranges=tuple(r.as_coordinates for r in ranges),
            by=self.run.request.by,
        )


def begin_attempt(
    run: RunContext, ledger_id: str, *others: TablePort, removes: str | None = None
) -> Attempt:
    """Take the next token; the caller holds the lease of whoever writes the tables.

    The raw table's token is the only evidence that a ledger was put back. Tables that follow it may
    have larger ones: whoever takes a token above those looks at the raw one first, or that evidence
    is gone.

    Args:
        run: This run.
        ledger_id: The ledger's.
        others: Tables that the attempt writes instead of the raw one.
        removes: The incident whose rows go: whoever counts them, waits, and counts again.
    """
    app = app_id(ledger_id)
    raw = run.table.newest_token(app) or 0
    known = max([raw, *(table.newest_token(app) or 0 for table in others)])
    secret = token_hex(32)

    def is_older(state: LedgerState) -> bool:
        # a rewind that was cut off keeps the runs out that could carry a decision out
        return raw > state.control.token and state.control.rewind is None

    def take(latest: LedgerState) -> LedgerState:
        if is_older(latest):
            return latest
        latest = latest.with_removal_begun(removes) if removes is not None else latest
        latest = latest.with_secret(secret)  # each copy of a ledger with a table has to have it
        return latest.with_next_token(above=known)

    state = run.ledger.update(take)
    if is_older(state):
        open_and_halt(run, state, foreign_changes(run, state)[1])
    return Attempt(run, state)


@contextmanager
def discarding(change: TableChange, *tables: TablePort) -> Iterator[None]:
    """Delete an attempt's files where it is certain that nothing was committed.

    After any other error nobody knows that yet, and whoever finishes the plan may need them.
    """
    try:
        yield
    except (AttemptFenced, CommitConflict, Halted, VerificationFailed):
        discard(change, *tables)
        raise


def discard(change: TableChange, *tables: TablePort) -> None:
    """Delete an attempt's files; what stays since a store is away, maintenance deletes later."""
    for table in tables:
        with suppress(ServiceAway):
            table.discard(change)


def ingest_job(
    run: RunContext,
    attempt: Attempt,
    change: TableChange,
    plan: BatchPlan,
    partition_by: Sequence[str],
    met: Iterable[CoordinateRange] = (),
    *,
    in_one_task: bool = False,
) -> SparkJob:
    """What Spark is given to read a plan.

    Args:
        attempt: Its ledger knows which offsets cannot be read.
        change: Says where the files go.
        plan: Whose rows are read.
        partition_by: The table's partition columns.
        met: Offsets that Spark could not read before in this attempt; good rows stand there, or
            their loss is accepted.
        in_one_task: Whether Spark had too little memory for several tasks at once.
    """
    erasing = attempt.state.erasing
    doubted = erasing.doubted(change.ranges)
    known, wanted = attempt.state.head.unreadable | Places.of(met), change.ranges
    return SparkJob(
        stream=run.stream.stream,
        run_id=run.run_id,
        plan_id=plan.plan_id,
        table_uri=run.stream.table.uri,
        folder=change.folder,
        partition_by=tuple(partition_by),
        isolation_level=plan.isolation_level,
        ranges=change.ranges,
        kafka_options=run.kafka_options,
        store_options=run.store_options,
        unreadable=known.cut(r.as_coordinates for r in wanted),
        in_one_task=in_one_task,
        erased=erasing.erased.cut(r.as_coordinates for r in wanted),
        doubted=doubted,
        hashes=erasing.hashes if doubted else (),
        future=erasing.future,
        secret=erasing.secret if doubted or erasing.future else "",
    )


def hand_over(
    run: RunContext, job: SparkJob | DecodeJob, kind: type[Answer]
) -> tuple[Answer | None, ServiceAway | None]:
    """Give a job to Spark, and wait until its application has ended.

    Args:
        job: What to do; the result's path and the limit of time are set here.
        kind: What the application answers.

    Returns:
        What it has answered, if it has; and how it ended, if not well.
    """
    with PrivateFolder() as folder:
        job_file, result_file = folder / "job.json", folder / "result.json"
        job_file.touch(mode=0o600)
        limit = run.stream.spark.stall_seconds
        job = replace(job, result_path=str(result_file), stall_seconds=limit)
        job_file.write_text(dump(job))
        failure: ServiceAway | None = None
        try:
            run.spark.submit(str(job_file))
        except ServiceAway as error:
            failure = error
        result = None
        if result_file.exists():
            result = load(kind, result_file.read_bytes(), f"result file {result_file}")
    return result, failure


def answer_of(run: RunContext, job: DecodeJob) -> DecodeResult:
    """Give a job to Spark, and take nothing but an answer that is good.

    Args:
        job: What to do, as for `hand_over`.

    Raises:
        ServiceAway: It could not be started, or ended without a word.
    """
    result, failure = hand_over(run, job, DecodeResult)
    if result is None:
        raise failure or ServiceAway("the Spark application ended without a result")
    if result.error is not None:
        raise reported_error(result.error)(result.message)
    if failure is not None:  # its word is no proof: it has not ended well
        raise failure
    return result


def lacked_memory(error: ServiceAway) -> bool:
    """Whether Spark, or what ended it, says that there was too little memory."""
    return _NO_MEMORY.search(str(error)) is not None


def submit(run: RunContext, job: SparkJob) -> SparkResult:
    """Run one Spark application to its end.

    Args:
        job: What to do; the path of the result is set here.

    Raises:
        ServiceAway: It could not be started, or ended without a word.
    """
    result, failure = hand_over(run, job, SparkResult)
    if result is not None and result.unreadable:
        raise UnreadableRecords(
            f"plan {job.plan_id}: Spark cannot read {first_few(result.unreadable, 3, '; ')}",
            unreadable=result.unreadable,
        )
    if result is not None and result.error is not None:
        reported = reported_error(result.error)
        hope = "; the next attempt checks whether records are lost or the fault has passed"
        raise reported(
            f"plan {job.plan_id}: Spark could not read {first_few(job.ranges, 3)} into files:"
            f" {result.message}. No position has moved{hope if reported.retriable else ''}"
        )
    if failure is not None:
        raise failure
    if result is None:
        raise ServiceAway(
            f"plan {job.plan_id}: Spark succeeded, but did not report what it wrote; nothing was"
            " committed, run again"
        )
    return result
