"""The two steps that fold, where the stream has a current table; both follow the two that decode.

9. `fold_changes` brings the table to what is decoded: which coordinates, and in which order.
10. `verify_current` holds the committed buckets against the fold, and moves the fold's head.
"""

from __future__ import annotations

from dataclasses import replace

from tideline.decoding.decode_steps import finish_open
from tideline.decoding.incarnations import learn_incarnations
from tideline.errors import BadInput, VerificationFailed
from tideline.failpoints import reach
from tideline.folding.current_tables import (
    commit_in,
    files_by_bucket,
    forgotten_folds,
    section,
    seen_from,
    table_of,
    taken_since,
)
from tideline.folding.fold_execution import execute_fold
from tideline.folding.fold_planning import plan_fold
from tideline.folding.fold_rules import has_to_fold, share_now
from tideline.landing.context import RunContext, log, now
from tideline.landing.naming import name_tables
from tideline.ledger.state import LedgerState
from tideline.model.current import FoldRecord, FoldRequest
from tideline.model.head import KnownCommit
from tideline.model.observation import TableObservation
from tideline.model.places import Places
from tideline.model.run import TableCommit
from tideline.model.wording import how_many


def fold_changes(run: RunContext, asked: FoldRequest | None = None) -> FoldRecord | None:
    """Bring the current table to what is decoded; None where there is nothing to do, or not yet.

    A plan that was left open is finished first: if the table shows its commit, it is only closed.
    A run that has folded before folds its own changes once more.

    Args:
        asked: What somebody has asked for: then it is time, whatever `every` says.

    Returns:
        The run's plan with its commit, still to be verified.

    Raises:
        FoldingHalted: A key has moved, or others have changed the table.
        BadInput: The table is another one, or the key is none.
        ServiceAway: A store is away.
        StreamBusy: Somebody else decodes or folds.
    """
    if run.current is None:
        return None
    state, every = run.ledger.read(), 0.0
    if asked is None:
        every = share_now(section(run).every, state.folding, run.stream.timezone, now())
    before = run.ledger.find_fold(run.run_id)
    if before is None and asked is None and not has_to_fold(state.decoding, state.folding, every):
        return None
    with run.ledger.lease("decoder"):
        finish_open(run)
        state = learn_incarnations(run)
        left = state.folding.open
        if left is not None:
            found = _recovered(run, left)
            if found is not None and left.plan.run_id == run.run_id:
                return found
            if found is not None:
                run.settled.append(_close(run, found))
            state = run.ledger.read()
        plan = plan_fold(run, state, before, every, is_anew=asked == "anew")
        return None if plan is None else execute_fold(run, plan)


def _recovered(run: RunContext, left: FoldRecord) -> FoldRecord | None:
    """The open plan with its commit, if the table shows it; None if nothing of it is there.

    Nor is it there where others have changed its buckets since: then all is folded anew.
    """
    made = table_of(run).find_commit(left.plan.plan_id, left.before_version)
    found = None if made is None else replace(left, table_version=made.version)
    if (
        made is None
        or found is None
        or _is_overtaken(run, made)
        or _spoiled(run, found, seen_from(run, found.table_version))
    ):
        log.info(
            "the fold of run %s was interrupted, or the table was changed since", left.plan.run_id
        )
        run.ledger.update(_given_back)
        return None
    run.ledger.update(lambda s: replace(s, folding=replace(s.folding, open=found)))
    return found


def _is_overtaken(run: RunContext, made: TableCommit) -> bool:
    """Whether a fold that the ledger does not know came after a commit: the ledger was put back."""
    newer = forgotten_folds(table_of(run), run.ledger.read().folding)
    return any(c.version > made.version for c in newer)


def _given_back(state: LedgerState) -> LedgerState:
    """What an open plan was to fold is due: what it folds again, and the rest, not covered yet."""
    folding = state.folding
    if folding.open is None:
        return state
    again = Places.of(folding.open.plan.again)
    freed = replace(folding, open=None, changed=folding.changed | again)
    return replace(state, folding=freed)


def folded_before(run: RunContext) -> FoldRecord | None:
    """The run's closed fold; None where it has none, or some of it is to be folded once more.

    A rewind may have undone it: what is told of it would be told of rows that go.
    """
    record = run.ledger.find_fold(run.run_id)
    if record is None:
        return None
    state = run.ledger.read()
    folded = (state.folding.coverage - state.folding.changed) & state.decoding.coverage
    return None if folded.rest(record.plan.ranges) else record


def verify_current(run: RunContext) -> FoldRecord | None:
    """The run's closed fold; None where it had nothing to fold, or not all of it stands.

    Raises:
        BadInput: The run's plan is open and not committed: only `verify_current` was cleared.
        VerificationFailed: A bucket holds other rows than the fold has left there.
        StreamBusy: Somebody else decodes or folds.
    """
    if run.current is None:
        return None
    with run.ledger.lease("decoder"):
        record = run.ledger.read().folding.open
        if record is None or record.plan.run_id != run.run_id:
            return folded_before(run)
        if record.table_version is None:
            raise BadInput(
                f"plan {record.plan.plan_id} is not committed: clear fold_changes and what follows,"
                " or run the same run id again",
                plan_id=record.plan.plan_id,
            )
        closed = _close(run, record)
        name_tables(run, "current")
        return closed


def _close(run: RunContext, record: FoldRecord) -> FoldRecord:
    """Verify a plan that is committed, and close it."""
    plan, seen = record.plan, seen_from(run, record.table_version)
    if wrong := _spoiled(run, record, seen):
        raise VerificationFailed(
            f"plan {plan.plan_id} of run {plan.run_id}: table {plan.table_uri}: {wrong}."
            " Nothing moved; clear fold_changes, or run the same run id again",
            plan_id=plan.plan_id,
        )
    known = _made(record, seen)
    assert known is not None
    done = replace(record, status="done", closed_at=now())
    reach("fold:closing")
    folding = run.ledger.update(lambda state: _closed(state, done, known)).folding
    reach("fold:closed")
    log.info(
        "folded %s into %s: %s, %d deleted",
        how_many(done.changes, "change"),
        how_many(len(done.buckets), "bucket"),
        how_many(folding.live, "row"),
        folding.deleted,
    )
    if done.keyless:
        log.warning("changes without a key, which are in no row: %d", done.keyless)
    return done


def _spoiled(run: RunContext, record: FoldRecord, seen: TableObservation) -> str | None:
    """What others have done to the table since a fold was committed, in words; None for nothing.

    Args:
        seen: The table, with its commits from the fold's on.
    """
    made = _made(record, seen)
    if made is None or seen.version is None:
        return f"version {record.table_version} is another commit than the fold's"
    if taken := taken_since(seen, made):
        return taken
    rows = {n: files.rows for n, files in files_by_bucket(run, seen.version).items()}
    there = ((b, rows.get(b.bucket, 0)) for b in record.buckets)
    wrong = [(b, found) for b, found in there if found is not None and found != b.rows]
    if not wrong:
        return None
    first, found = wrong[0]
    return (
        f"bucket {first.bucket} was left with {how_many(first.rows, 'row')}, and has {found};"
        f" buckets that differ: {len(wrong)}"
    )


def _made(record: FoldRecord, seen: TableObservation) -> KnownCommit | None:
    assert record.table_version is not None
    made = commit_in(seen, record.table_version, record.plan.run_id)
    return made if made is not None and made.commit_id == record.plan.plan_id else None


def _closed(state: LedgerState, done: FoldRecord, known: KnownCommit) -> LedgerState:
    open_now = state.folding.open
    if open_now is None or open_now.plan != done.plan:
        return state  # by this very call, whose answer was lost, or by another attempt
    return state.with_fold_closed(done, known, now())
