"""The current table held against the ledger: its rows' number by its log, or all of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tideline.errors import BadInput, StreamBusy
from tideline.folding.current_tables import files_by_bucket, other_table, taken_by_others
from tideline.folding.fold_execution import bucket_text, recompute
from tideline.folding.fold_planning import plan_recompute
from tideline.folding.fold_rules import buckets_of_day, refused_changes
from tideline.landing.context import RunContext, log, now
from tideline.model.current import BucketState, Folding, differing
from tideline.rules.audit import BucketFlaw, CurrentAudit

_UNTOUCHED = "no commits of others that take rows away (tideline fold FILE sums every bucket)"
_FOLDED = "the table that was folded, whose files alone say what it holds"
_LOOKS = 5
"""So often the table is looked at while folds close."""


@dataclass(frozen=True, slots=True)
class CurrentCheck:
    """What a look at the current table came to.

    Args:
        folding: The fold's head, by which it was looked at; None where nothing was ever folded.
        changes: Typed rows that were folded once more, to compare.
        flaws: Empty where the table is the fold of its changes.
        buckets: Those that were looked at; none for all, and where changes have no order.
    """

    folding: Folding | None
    changes: int = 0
    flaws: tuple[BucketFlaw, ...] = ()
    buckets: tuple[int, ...] = ()


def count_current(run: RunContext) -> CurrentAudit | None:
    """Hold the buckets' numbers of rows, as the table's log has them, against the ledger.

    A fold that is under way is not looked at.

    Returns:
        None where nothing was ever folded.

    Raises:
        ServiceAway: A store is away.
        StreamBusy: Folds closed faster than the log could be read.
    """
    for _ in range(_LOOKS):
        state = run.ledger.read()
        folding, rows, other, taken = state.folding, dict[int, int | None](), None, None
        if run.current is None or folding.layout is None:
            return None
        seen = run.current.observe()
        if folding.open is None and seen.version is not None:
            rows = {n: files.rows for n, files in files_by_bucket(run, seen.version).items()}
            other = other_table(run, state, seen)
            taken = taken_by_others(run, state)
        if run.ledger.read().folding == folding:
            break
    else:
        raise StreamBusy("folds closed faster than the current table could be looked at; run again")
    known = {b.bucket: b.rows for b in folding.buckets}
    both = {n: (known.get(n, 0), rows.get(n, 0)) for n in sorted({*known, *rows})}
    wrong = [
        BucketFlaw(n, "table", f"{expected} rows", f"{found} rows")
        for n, (expected, found) in both.items()
        if found is not None and found != expected
    ]
    if other is not None:
        wrong.append(BucketFlaw(None, "table", _FOLDED, other))
    if taken is not None:
        wrong.append(BucketFlaw(None, "table", _UNTOUCHED, taken))
    return CurrentAudit(
        rows=folding.live,
        deleted=folding.deleted,
        unfolded=folding.unfolded(state.decoding.coverage),
        wrong=() if folding.open is not None else tuple(wrong),
    )


def audit_current(run: RunContext, buckets: int) -> CurrentAudit | None:
    """`count_current`, and the rows of as many buckets, those whose turn it is today.

    Where a fold is open, or changes are others since they were folded, no rows are looked at.

    Raises:
        StreamBusy: Somebody decodes, folds or erases now.
    """
    found = count_current(run)
    if found is None or not buckets:
        return found
    try:
        check = check_current(run, buckets)
    except BadInput as error:
        log.warning("no rows of the current table were looked at: %s", error)
        return found
    except StreamBusy as error:
        raise StreamBusy(
            f"{error.message}. Whoever decodes, folds or erases holds that lease, and no bucket can"
            " be read meanwhile. An audit without buckets waits for nobody",
            **error.facts,
        ) from error
    flaws = tuple(flaw for flaw in check.flaws if flaw not in found.wrong)
    layout = None if check.folding is None else check.folding.layout
    is_proven = not flaws and layout is not None and len(check.buckets) == layout.buckets
    wrong = (f for f in found.wrong if not (is_proven and f.bucket is None))
    return replace(found, wrong=(*wrong, *flaws), checked=check.buckets)


def check_current(run: RunContext, count: int | None = None) -> CurrentCheck:
    """Fold everything once more without writing, and compare every bucket.

    Args:
        run: This run; its stream has a current table.
        count: How many buckets, those whose turn it is today; None for all.

    Raises:
        BadInput: The table's sums are of an earlier version; or a fold is under way, or changes are
            others since they were folded.
        ServiceAway: A store is away.
    """
    with run.ledger.lease("decoder"):
        state = run.ledger.read()
        plan = plan_recompute(run, state)
        if plan is None:
            return CurrentCheck(None)
        if state.folding.has_old_sums:
            raise BadInput(
                f"stream {run.stream.stream}: the sums of the current table are of an earlier"
                " version, and cannot be compared: tideline fold FILE first, which rebuilds the"
                " table once"
            )
        every = plan.layout.buckets
        only = () if count is None else buckets_of_day(now().date(), count, every)
        result = recompute(run, plan, only)
    if result.refused:  # a look opens no incident: the next fold that meets it does
        finding = refused_changes(plan.order, plan.deletes.untold, result.refused)
        flaw = BucketFlaw(None, "order", finding.expected, finding.actual)
        return CurrentCheck(state.folding, result.changes, (flaw,))
    known = [b for b in state.folding.buckets if not only or b.bucket in only]
    found: tuple[tuple[Literal["table", "changes"], tuple[BucketState, ...]], ...] = (
        ("table", result.found),
        ("changes", result.left),
    )
    flaws = tuple(
        BucketFlaw(n, place, bucket_text(is_known), bucket_text(is_there))
        for place, states in found
        for n, (is_known, is_there) in differing(known, states).items()
    )
    return CurrentCheck(state.folding, result.changes, flaws, only)
