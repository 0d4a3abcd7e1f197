"""Execute a plan to fold: have Spark fold it, hold it against the ledger, freeze, commit.

One plan is one commit, whatever the number of buckets: nobody ever reads half of a fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tideline.errors import (
    AttemptFenced,
    CommitConflict,
    Halted,
    ServiceAway,
    VerificationFailed,
    reported_error,
)
from tideline.failpoints import reach
from tideline.folding.rules import layout_text
from tideline.folding.tables import halted, newest_version, section, table_of
from tideline.landing.attempts import hand_over
from tideline.landing.context import RunContext, log
from tideline.landing.table_commit import Target, commit_checked
from tideline.ledger.state import LedgerState
from tideline.model.current import BUCKET, BucketState, FoldPlan, FoldRecord
from tideline.model.decoding import UNAVAILABLE
from tideline.model.incident import Finding
from tideline.model.spark_job import BucketFiles, FoldJob, FoldResult, Output
from tideline.model.wording import first_few
from tideline.table.schema import (
    CURRENT_COORDINATES,
    TYPED_COLUMNS,
    Field,
    TableChange,
    app_id,
    delta_field,
    delta_fields,
)


def execute(run: RunContext, plan: FoldPlan) -> FoldRecord:
    """Fold a plan, freeze it, and commit its buckets.

    Returns:
        The open record, still to be verified.

    Raises:
        FoldingHalted: A key has moved, or the table is not as the last fold has left it.
        ServiceAway: Spark or a store is away, or the table was changed meanwhile.
    """
    change = _begin(run, plan)
    _prepare(run, change, plan)
    version = newest_version(run)
    standing = {
        int(str(bucket)): files.paths
        for bucket, files in table_of(run).files_by(BUCKET, version).items()
    }
    result = _folded(run, change, plan, standing)
    known = {} if plan.is_anew else {b.bucket: b for b in run.ledger.read().folding.buckets}
    left = {b.bucket: b for b in result.left}
    buckets = tuple(left.get(n) or BucketState(n, 0, 0, 0) for n in result.touched)
    record = FoldRecord(
        plan,
        before_version=version,
        changes=result.changes,
        keyless=result.keyless,
        buckets=buckets,
        anew=tuple(n for n in result.anew if n in known),
        barrier=result.barrier,
    )
    gone = standing if plan.is_anew else {n: standing[n] for n in result.touched if n in standing}
    takes_out = tuple(path for paths in gone.values() for path in paths)
    try:
        files = table_of(run).rewritten(change, result.written)
        reach("fold:freezing")
        run.ledger.update(lambda state: _with_open(state, record))
        reach("fold:frozen")
        made = _commit(run, replace(change, takes_out=takes_out), files, version)
    except (Halted, AttemptFenced, VerificationFailed):  # it is certain that nothing was committed
        _discard(run, change)
        raise
    reach("fold:committed")
    done = replace(record, table_version=made)
    run.ledger.update(lambda state: _with_open(state, done))
    reach("fold:noted")
    return done


def _begin(run: RunContext, plan: FoldPlan) -> TableChange:
    """Take the next token; the caller holds the decoder's lease."""
    app = app_id(run.ledger.read().control.ledger_id)
    known = table_of(run).newest_token(app) or 0
    state = run.ledger.update(lambda s: s.with_next_token(above=known))
    return TableChange(
        ledger_id=state.control.ledger_id,
        commit_id=plan.plan_id,
        run_id=run.run_id,
        token=state.control.token,
        ranges=(),
        by=plan.by,
    )


def _prepare(run: RunContext, change: TableChange, plan: FoldPlan) -> None:
    """Make the table where it is not there, and add the columns that the plan needs."""
    table, fields = table_of(run), current_fields(plan)
    layout = {"tideline.current": layout_text(plan.layout)}
    table.create(run.stream.stream, change.ledger_id, [BUCKET], fields, layout)
    table_id = str(table.observe().table_id)

    def note(state: LedgerState) -> LedgerState:
        if state.folding.table_id == table_id:
            return state
        return replace(state, folding=replace(state.folding, table_id=table_id))

    run.ledger.update(note)
    table.add_columns(fields)
    reach("fold:prepared")


def current_fields(plan: FoldPlan) -> tuple[Field, ...]:
    """The current table's columns in Delta's form: the key's, the row's, then our own."""
    own = delta_fields(CURRENT_COORDINATES)
    unavailable = [f for f in delta_fields(TYPED_COLUMNS) if f["name"] == UNAVAILABLE]
    return (
        *(delta_field(c.name, c.type) for c in plan.columns),
        *own[:-2],
        *(unavailable if plan.has_unavailable else ()),
        *own[-2:],
    )


def look(run: RunContext, plan: FoldPlan) -> FoldResult:
    """What the table holds, and what the plan's changes alone would make; nothing is written."""
    version = newest_version(run)
    files = table_of(run).files_by(BUCKET, version)
    standing = {int(str(bucket)): found.paths for bucket, found in files.items()}
    return _submit(run, replace(_job(run, plan, standing, "looked"), is_look=True))


def _job(
    run: RunContext, plan: FoldPlan, standing: dict[int, tuple[str, ...]], folder: str
) -> FoldJob:
    """What Spark is given."""
    assert run.typed is not None
    typed = run.typed.decoded
    version = typed.observe().version
    if version is None:
        raise ServiceAway(f"table {plan.table_uri}: its typed table is gone: nothing was folded")
    return FoldJob(
        store_options=run.store_options,
        stream=run.stream.stream,
        run_id=run.run_id,
        typed_uri=_typed_uri(run),
        typed_files=typed.files_at(plan.ranges, version),
        every_file=typed.files_at(plan.covered, version),
        current_files=tuple(BucketFiles(n, f) for n, f in sorted(standing.items())),
        plan=plan,
        current=Output(plan.table_uri, folder, (BUCKET,)),
        before=() if plan.is_anew else run.ledger.read().folding.buckets,
    )


def _folded(
    run: RunContext,
    change: TableChange,
    plan: FoldPlan,
    standing: dict[int, tuple[str, ...]],
) -> FoldResult:
    """Have Spark fold; given once more with the buckets that have to be folded anew."""
    job = _job(run, plan, {} if plan.is_anew else standing, change.folder)
    result = _submit(run, job)
    if result.anew and not result.moved:
        log.info("folding buckets %s anew", first_few(result.anew))
        wanted = tuple(sorted({*job.anew, *result.anew}))
        again = _submit(run, replace(job, anew=wanted))
        if again.anew:  # a value that did not come, in a bucket that only the first pass had left
            wanted = tuple(range(plan.layout.buckets))
            again = _submit(run, replace(job, anew=wanted))
        result = replace(again, anew=wanted)
    _refuse_moved(run, change, result)
    _refuse_changed(run, change, plan, result, job.before)
    return result


def _submit(run: RunContext, job: FoldJob) -> FoldResult:
    result, failure = hand_over(run, job, FoldResult)
    if result is None:
        raise failure or ServiceAway("the Spark application left no result")
    if result.error is not None:
        raise reported_error(result.error)(result.message)
    if failure is not None:  # its word is no proof: it has not ended well
        raise failure
    return result


def _refuse_moved(run: RunContext, change: TableChange, result: FoldResult) -> None:
    if result.moved:
        _discard(run, change)
        expected = "the changes of each key in one partition of the topic"
        actual = f"changes in several: {first_few(result.moved)}"
        raise halted(run, Finding(kind="key_moved", expected=expected, actual=actual))


def _refuse_changed(
    run: RunContext,
    change: TableChange,
    plan: FoldPlan,
    result: FoldResult,
    before: Sequence[BucketState],
) -> None:
    """Hold what stood in the touched buckets against what the last fold has left there."""
    anew = {*result.anew} if not plan.is_anew else {*range(plan.layout.buckets)}
    touched = {*result.touched} - anew
    known = {b.bucket: b for b in before if b.bucket in touched}
    found = {b.bucket: b for b in result.found if b.bucket in touched}
    wrong = [n for n in sorted({*known, *found}) if known.get(n) != found.get(n)]
    if wrong:
        _discard(run, change)
        first = wrong[0]
        raise halted(
            run,
            Finding(
                kind="current_changed",
                expected=f"bucket {first} with {said(known.get(first))}",
                actual=f"{said(found.get(first))}; {len(wrong)} buckets of {len(touched)} differ",
            ),
        )


def said(state: BucketState | None) -> str:
    """What a bucket holds, in words."""
    if state is None:
        return "no rows"
    return f"{state.live} rows, {state.deleted} deleted, sum {state.checksum:016x}"


def _typed_uri(run: RunContext) -> str:
    assert run.stream.decode is not None
    return run.stream.decode.table.uri


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

    target = Target(table, uri, lambda: (table.observe(), ()), lambda findings: None)
    try:
        return commit_checked(target, change, files, check, version).version
    except CommitConflict as conflict:
        raise ServiceAway(str(conflict)) from conflict


def _discard(run: RunContext, change: TableChange) -> None:
    """Delete what Spark has written; the attempt has not committed."""
    with suppress(ServiceAway):
        table_of(run).discard(change)


def _with_open(state: LedgerState, record: FoldRecord) -> LedgerState:
    return replace(state, folding=state.folding.opened(record))
