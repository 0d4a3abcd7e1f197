"""Execute a plan to fold: fold it, hold it against the ledger, freeze, commit.

One plan is one commit, whatever the number of buckets: nobody ever reads half of a fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tideline.decoding.verifying import refuse_lacking
from tideline.delta.delta_properties import kept_for
from tideline.documents import dump
from tideline.errors import (
    CommitConflict,
    ServiceAway,
    VerificationFailed,
)
from tideline.failpoints import reach
from tideline.folding.current_tables import (
    files_by_bucket,
    fold_halted,
    forgotten_folds,
    section,
    table_of,
    taken_by_others,
    version_and_token,
)
from tideline.folding.fold_planning import sealed_fold
from tideline.folding.fold_rules import layout_text, refused_changes
from tideline.landing.attempts import begin_attempt, discard, discarding
from tideline.landing.context import RunContext, log
from tideline.landing.table_commit import commit_checked
from tideline.ledger.state import LedgerState
from tideline.model.current import BUCKET, BucketState, FoldPlan, FoldRecord, differing
from tideline.model.fold_job import BucketFiles, FoldJob, FoldResult
from tideline.model.incident import Finding
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import Output
from tideline.model.verdicts import VERDICTS
from tideline.model.wording import first_few
from tideline.table.schema import LAYOUT_PROPERTY, UNPROVEN_PROPERTY, TableChange, current_columns


def execute_fold(run: RunContext, plan: FoldPlan) -> FoldRecord:
    """Fold a plan, freeze it, and commit its buckets.

    Returns:
        The open record, still to be verified.

    Raises:
        ServiceAway: A store is away, or the table was changed meanwhile.
        VerificationFailed: The typed table lacks rows of what is folded; nothing moved.
    """
    _refuse_lacking(run, plan, plan.ranges)
    attempt = begin_attempt(run, run.ledger.read().control.ledger_id, table_of(run))
    sealed = sealed_fold(run, attempt.state, plan)
    change = replace(attempt.change(plan.plan_id), by=plan.by, fold=dump(sealed))
    before = _prepare(run, attempt.state, plan)
    version, _ = version_and_token(run)
    files_there = {n: files.paths for n, files in files_by_bucket(run, version).items()}
    result = _folded(run, change, _job(run, plan, files_there, change.folder, before))
    left = {b.bucket: b for b in result.left}
    record = FoldRecord(
        plan,
        before_version=version,
        changes=result.changes,
        keyless=result.keyless,
        buckets=tuple(left.get(n) or BucketState(n, 0, 0, 0) for n in result.touched),
        anew=result.anew,
        barrier=result.barrier,
    )
    gone = (n for n in files_there if plan.is_anew or n in result.touched)
    takes_out = tuple(path for n in gone for path in files_there[n])
    with discarding(change, table_of(run)):
        files = table_of(run).rewritten(change, result.written)
        reach("fold:freezing")
        run.ledger.update(lambda state: _with_open(state, record))
        reach("fold:frozen")
        made = _commit(run, replace(change, takes_out=takes_out), files, version)
    reach("fold:committed")
    done = replace(record, table_version=made)
    run.ledger.update(lambda state: _with_open(state, done))
    reach("fold:noted")
    return done


def _prepare(run: RunContext, state: LedgerState, plan: FoldPlan) -> tuple[BucketState, ...]:
    """Make the table where it is not there, and add the columns that the plan needs.

    Returns:
        What the table's buckets hold by the ledger.
    """
    table, fields = table_of(run), current_columns(plan)
    layout = {LAYOUT_PROPERTY: layout_text(plan.layout)}
    layout |= kept_for(run.stream.maintenance.vacuum_hours)
    table.create(run.stream.stream, state.control.ledger_id, [BUCKET], fields, layout)
    table_id = str(table.observe().table_id)

    def note(state: LedgerState) -> LedgerState:
        if state.folding.table_id == table_id:
            return state
        return replace(state, folding=state.folding.of_new_table(table_id))

    if state.folding.table_id != table_id:
        state = run.ledger.update(note)
    table.add_columns(fields)
    since = plan.unproven_since
    table.set_properties({UNPROVEN_PROPERTY: "" if since is None else since.isoformat()})
    reach("fold:prepared")
    return () if plan.is_anew else state.folding.buckets


def recompute(run: RunContext, plan: FoldPlan, only: Sequence[int] = ()) -> FoldResult:
    """What the table holds, and what the plan's changes alone would make; nothing is written.

    Args:
        only: The buckets that are looked at; none for all.

    Returns:
        With `refused` alone where a change has no place in the table.
    """
    version, _ = version_and_token(run)
    there = {n: files.paths for n, files in files_by_bucket(run, version).items()}
    job = _job(run, plan, there, "looked", run.ledger.read().folding.buckets)
    job = replace(job, is_recompute=True, only=tuple(only))
    return _by(run)(job)


def _job(
    run: RunContext,
    plan: FoldPlan,
    there: Mapping[int, tuple[str, ...]],
    folder: str,
    before: tuple[BucketState, ...],
) -> FoldJob:
    """What is to be folded.

    Args:
        there: The data files of each bucket; their rows count where all is not made anew.
        before: What they hold by the ledger.
    """
    if plan.is_anew:
        there = {}
    return FoldJob(
        typed_uri=run.stream.source.table.uri,
        typed_files=run.source.files_at(plan.ranges, plan.typed_version),
        current_files=tuple(BucketFiles(n, files) for n, files in sorted(there.items())),
        plan=plan,
        current=Output(plan.table_uri, folder, (BUCKET,)),
        before=before,
    )


def _folded(run: RunContext, change: TableChange, job: FoldJob) -> FoldResult:
    """Fold; once more with the buckets that have to be folded anew."""
    plan = job.plan
    result = _answer(run, change, job)
    if result.needs_all:
        job = replace(job, every_file=_every_file(run, change, plan))
        result = _answer(run, change, job)
    if result.anew and not result.refused:
        log.info("rebuilding buckets %s", first_few(result.anew))
        every = job.every_file or _every_file(run, change, plan)
        job = replace(job, every_file=every, anew=result.anew)
        result = _answer(run, change, job)
        if result.anew:  # a value that did not come, in a bucket that only the first pass had left
            job = replace(job, anew=tuple(range(plan.layout.buckets)))
            result = _answer(run, change, job)
        result = replace(result, anew=job.anew)
    _refuse_moved(run, change, plan, result)
    _refuse_changed(run, change, job, result)
    return result


def _answer(run: RunContext, change: TableChange, job: FoldJob) -> FoldResult:
    """Fold; of a fold that is done again, or that fails, no file stays."""
    try:
        result = _by(run)(job)
    except BaseException:
        discard(change, table_of(run))
        raise
    if result.anew or result.needs_all:
        discard(change, table_of(run))
    return result


def _by(run: RunContext) -> Callable[[FoldJob], FoldResult]:
    assert run.fold is not None
    return run.fold


def _every_file(run: RunContext, change: TableChange, plan: FoldPlan) -> tuple[str, ...]:
    """The typed table's files with all that is decoded, which has to be there."""
    try:
        _refuse_lacking(run, plan, plan.covered)
    except VerificationFailed:
        discard(change, table_of(run))
        raise
    return run.source.files_at(plan.covered, plan.typed_version)


def _refuse_lacking(run: RunContext, plan: FoldPlan, ranges: Sequence[CoordinateRange]) -> None:
    """Make sure that changes which are counted as folded are in the version that is read."""
    refuse_lacking(run, ranges, "Nothing was folded", plan.typed_version)


def _refuse_moved(run: RunContext, change: TableChange, plan: FoldPlan, result: FoldResult) -> None:
    if result.refused:
        discard(change, table_of(run))
        raise fold_halted(run, refused_changes(plan.order, plan.deletes.untold, result.refused))


def _refuse_changed(run: RunContext, change: TableChange, job: FoldJob, result: FoldResult) -> None:
    """Hold what stood in the touched buckets against what the last fold has left there.

    Raises:
        FoldingHalted: It is something else.
        ServiceAway: An attempt that woke up has folded since this one was planned.
    """
    wrong = differing(job.before_in(result.touched), result.found)
    if not wrong:
        return
    discard(change, table_of(run))
    if forgotten_folds(table_of(run), run.ledger.read().folding):
        raise ServiceAway(
            f"table {job.current.uri} was folded by an earlier attempt, which had stood still;"
            " nothing was committed, run again: all is rebuilt"
        )
    first, (expected, found) = next(iter(wrong.items()))
    taken = taken_by_others(run, run.ledger.read())
    raise fold_halted(
        run,
        Finding(
            kind="current_changed",
            expected=f"bucket {first} with {bucket_text(expected)}",
            actual=f"{bucket_text(found)}; {len(wrong)} of {len(result.touched)} buckets differ",
            detail=None if taken is None else f"{VERDICTS['current_changed'].cause}: {taken}",
        ),
    )


def bucket_text(state: BucketState | None) -> str:
    """What a bucket holds, in words."""
    if state is None:
        return "no rows"
    return f"{state.live} rows, {state.deleted} deleted, sum {state.checksum:016x}"


def _commit(run: RunContext, change: TableChange, files: Sequence[str], version: int) -> int:
    """Put an attempt's files in the place of the buckets that it was made of."""
    table, uri = table_of(run), section(run).table.uri

    def check(newest: int) -> TableChange:
        if newest != version:
            raise ServiceAway(
                f"table {uri} was changed while it was folded: it was at version {version}, and"
                f" now is at {newest}; nothing was committed, run again"
            )
        return change

    try:
        made = commit_checked(table, change, files, after_version=version, check=check)
    except CommitConflict as conflict:
        raise ServiceAway(str(conflict)) from conflict
    return made.version


def _with_open(state: LedgerState, record: FoldRecord) -> LedgerState:
    return replace(state, folding=state.folding.opened(record))
