"""The plan of a fold: what is due, or everything that is folded, to be looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tideline.decoding.decode_rules import TypedTable, reasons_not_to_touch
from tideline.decoding.incarnations import with_incarnations
from tideline.errors import BadInput, ServiceAway
from tideline.folding.current_tables import (
    fold_begins_anew,
    last_folded,
    other_table,
    recover_folds,
    refuse_other_type,
    section,
    table_of,
    taken_by_others,
)
from tideline.folding.fold_rules import (
    Due,
    are_reordered,
    comes_below,
    covered_ranges,
    current_columns_of,
    deletes_otherwise,
    drops_of,
    due_changes,
    floors_still_landed,
    fold_plan_id,
    is_time,
    loses_a_barrier,
    lost_columns,
    ranges_to_refold,
    sequence_of,
    unproven_since,
    wrong_deletes,
    wrong_key,
    wrong_mark,
    wrong_sequence,
)
from tideline.landing.context import RunContext, log, now
from tideline.ledger.state import LedgerState
from tideline.model.current import (
    SUMS,
    Deletes,
    Floor,
    Folding,
    FoldPlan,
    FoldRecord,
    Layout,
    Order,
    SealedFold,
    all_below,
)
from tideline.model.decoding import INVALID, OF_ENVELOPE, OWN_COLUMNS, UNAVAILABLE
from tideline.model.incident import decided_incident
from tideline.model.observation import TableObservation
from tideline.model.offsets import partition_counts
from tideline.model.places import Places
from tideline.model.wording import first_few
from tideline.stream.decode_section import Decode
from tideline.table.schema import Field


def plan_fold(
    run: RunContext,
    state: LedgerState,
    before: FoldRecord | None,
    every: float,
    *,
    is_anew: bool = False,
    sweep: tuple[Floor, ...] = (),
) -> FoldPlan | None:
    """The plan that this run has to execute; None if there is nothing to fold, or not yet.

    Args:
        state: The ledger, under the decoder's lease.
        before: What this run has folded before, which it folds once more.
        every: The share of the table's rows that the unfolded changes have to exceed.
        is_anew: Whether somebody has asked that every bucket be folded anew.
        sweep: Where a snapshot begins, if rows that it has not read are to go.

    Raises:
        BadInput: The table is another one, or the key is none.
        ServiceAway: A store is away.
    """
    state = with_incarnations(run, state)
    decoding, folding, topic = state.decoding, state.folding, _topic(run)
    source, columns = _source(run, state)
    layout = _layout(run, state, columns)
    if layout is None:
        if decoding.known_tables:
            _version_there(run, source)
        return None
    is_new = fold_begins_anew(run, state, layout)
    is_taken = not is_new and _is_taken(run, state)
    if is_new:
        folding = _of_new_table(run, state, layout)
    work = due_changes(decoding, folding, topic)
    if before is not None:
        more = ranges_to_refold(before.plan.ranges, decoding, topic)
        work = Due((*work.ranges, *more), work.again)
    by_time = decided_incident(folding.incidents, "key_moved", "by_time")
    refolds = by_time or decided_incident(folding.incidents, "current_changed", "refold")
    deletes = _deletes(run, state, layout, columns)
    if reasons := list(_reasons_for_all(run, folding, work, state, deletes, columns)):
        log.warning("the current table is rebuilt, once: %s", "; ".join(reasons))
    is_anew |= bool(is_new or reasons or refolds is not None)
    order = _order(folding, layout, is_by_time=by_time is not None)
    floored = _with_floors(state, folding, order, sweep)
    # values of before a sweep end with it, as they do in a fold anew
    is_anew |= floored.floors != folding.floors and (not sweep or _has_unavailable(run))
    folding = floored
    is_due = is_taken or (work.is_anything and (before or is_time(work, folding, every)))
    if not (is_anew or is_due or sweep):
        return None
    if not decoding.coverage and not work.again:
        return None
    drops: tuple[Floor, ...] = () if is_anew else folding.drops
    if not section(run).keep_deleted:
        drops = drops_of(folding, order, is_anew=is_anew)
    is_drop = drops != folding.drops or is_taken
    folding = replace(folding, order=order, drops=drops)
    folding = replace(folding, deletes=deletes)
    plan = _plan(run, state, folding, layout, work, source, columns, is_anew=is_anew)
    if sweep:  # which heals
        plan = replace(plan, unproven_since=None)
    return replace(plan, is_sweep=bool(sweep), is_drop=is_drop, sums=SUMS)


def _is_taken(run: RunContext, state: LedgerState) -> bool:
    """Whether every bucket has to be summed, as others may have put older rows back."""
    if taken := taken_by_others(run, state):
        log.warning("the current table is summed as a whole: %s", taken)
    return bool(taken)


def _of_new_table(run: RunContext, state: LedgerState, layout: Layout) -> Folding:
    """The head of a table in which nothing is folded yet; it knows what forgotten folds tell.

    That is stored: the plan does not have all of it.
    """
    folding, sealed, since = state.folding, None, None
    if (learned := recover_folds(run, state)) is not None:
        sealed, lost = learned

        def learn(latest: LedgerState) -> LedgerState:
            return replace(latest, folding=latest.folding.having_learned(sealed, lost))

        folding = run.ledger.update(learn).folding
        since = folding.unproven_since
    if folding.floors and sealed is None and _is_of_other_type(run, layout):
        log.warning("what was swept was of another event type: the table is unproven until a sweep")
        folding = folding.without_floors(state.decoding.coverage, state.head.order_of_incarnations)
    return replace(folding.of_new_table(), unproven_since=since)


def _is_of_other_type(run: RunContext, layout: Layout) -> bool:
    """Whether the last fold was of another event type."""
    last = last_folded(run)
    return last is not None and last.layout.type != layout.type


def _with_floors(
    state: LedgerState, folding: Folding, order: Order, sweep: tuple[Floor, ...]
) -> Folding:
    """The head with the floors that stand; those of a sweep take the place of older ones."""
    floors = sweep or floors_still_landed(folding.floors, state.head.coverage)
    if order == "sequence":  # a change may be newer, and come below
        floors = ()
    if folding.floors and not floors:
        log.warning(
            "rows that tideline sweep has deleted are back: the table is unproven until a sweep"
        )
        head = state.head
        return folding.without_floors(state.decoding.coverage, head.order_of_incarnations)
    return replace(folding, floors=floors)


def older_kept(run: RunContext, state: LedgerState, layout: Layout) -> Places:
    """Erased changes of keys of the table that may keep older ones: their rows may be older."""
    erasing, part = state.erasing, state.decoding.part("key")
    if not erasing.begun:
        return erasing.partial
    columns = () if part is None else tuple(c.name for c in part.reader.in_table)
    uri = section(run).table.uri
    partial = (e for e in run.ledger.erasures() if e.leaves_older(layout.key, uri, columns))
    return erasing.partial | Places.of(*(e.ranges for e in partial))


def sealed_fold(run: RunContext, state: LedgerState, plan: FoldPlan) -> SealedFold:
    """What the commit of a plan tells a ledger that was put back to before it."""
    folding = state.folding
    if folding.floors and not plan.floors:
        folding = folding.without_floors(Places.of(plan.covered), plan.incarnations)
    lost = state.head.lost_deletes | folding.lost | older_kept(run, state, plan.layout)
    is_new = plan.is_sweep
    healed = all_below(lost, plan.floors, plan.incarnations) if is_new else folding.healed
    return SealedFold(plan.order, plan.floors, plan.unproven_since, healed, lost)


def _reasons_for_all(
    run: RunContext,
    folding: Folding,
    work: Due,
    state: LedgerState,
    deletes: Deletes,
    columns: Sequence[Field],
) -> Iterator[str]:
    """Why what stands in the table counts for nothing, in words; nothing where it counts."""
    order = state.head.order_of_incarnations
    if deletes_otherwise(folding, deletes, has_events=_has_events(run)):
        yield "other changes delete than those by which it was folded"
    if folding.has_old_sums:
        yield "its sums are of an older kind"
    if gone := lost_columns(folding.columns, columns):
        yield f"the typed table no longer has {first_few(gone)}"
    if are_reordered(folding, order):
        yield "incarnations of the topic came in another order than they were folded in"
    if loses_a_barrier(work, folding):
        yield "the change that said that all rows are gone is another one, or gone"
    if comes_below(work, folding.drops, order):
        yield "a change comes below what was dropped"


def _order(folding: Folding, layout: Layout, *, is_by_time: bool) -> Order:
    """What orders changes: a decision stays, whatever was declared."""
    if is_by_time or folding.order == "time":
        return "time"
    return "sequence" if layout.sequence else "offset"


def plan_recompute(
    run: RunContext, state: LedgerState, *, is_exact: bool = True
) -> FoldPlan | None:
    """The plan that would make anew all that is folded; None if nothing is.

    Args:
        state: The ledger, under the decoder's lease where the table is compared.
        is_exact: Whether all that is folded has to be in the table as it is decoded now.

    Raises:
        BadInput: It has to, and a fold is under way, or changes are others since. Or the stream
            file names another event type.
    """
    state = with_incarnations(run, state)
    folding, topic = state.folding, _topic(run)
    if folding.layout is None:
        return None
    refuse_other_type(run, folding)
    seen = table_of(run).observe()
    if seen.table_id is not None and str(seen.table_id) != folding.table_id:
        raise BadInput(
            f"stream {run.stream.stream}: the table at {section(run).table.uri} is not the one that"
            " was folded: tideline fold FILE first"
        )
    if (other := other_table(run, state, seen)) is not None:
        raise BadInput(f"stream {run.stream.stream}: {other}. Nothing was read")
    is_due = folding.open is not None or due_changes(state.decoding, folding, topic).again
    if is_exact and is_due:
        raise BadInput(
            f"stream {run.stream.stream}: changes that were folded are others by now, or a fold is"
            " under way: tideline fold FILE first"
        )
    work = Due(covered_ranges(folding.coverage, topic), ())
    alone = replace(folding, barrier=None)  # the changes bring their own
    return _plan(run, state, alone, folding.layout, work, *_source(run, state), is_anew=False)


def _source(run: RunContext, state: LedgerState) -> tuple[TableObservation, tuple[Field, ...]]:
    """The typed table whose changes are folded, and its columns.

    Raises:
        BadInput: It is another program's, or its files do not say what it holds: columns have other
            names there, or rows are hidden.
    """
    seen, stream, name = run.source.observe(), run.stream.stream, section(run).type
    key = f"decode.value.types.{name}" if name else "decode.table.uri"
    table = TypedTable(key, _decode(run).table.uri, seen)
    if wrong := tuple(reasons_not_to_touch([table], stream, state.control.ledger_id)):
        raise BadInput(f"stream {stream}: {'; '.join(wrong)}. Nothing was folded")
    return seen, run.source.columns()


def _version_there(run: RunContext, seen: TableObservation) -> int:
    """The typed table's version: of one that is away, nobody knows what is to fold.

    Raises:
        ServiceAway: There is none.
    """
    if seen.version is None:
        raise ServiceAway(
            f"table {_decode(run).table.uri} is gone: nothing was folded. Next: restore it; or, if"
            " all typed tables were deleted for good, tideline decode FILE --again and tideline run"
            " FILE, which decodes everything anew"
        )
    return seen.version


def _plan(
    run: RunContext,
    state: LedgerState,
    folding: Folding,
    layout: Layout,
    work: Due,
    seen: TableObservation,
    columns: Sequence[Field],
    *,
    is_anew: bool,
) -> FoldPlan:
    decode = _decode(run)
    version = _version_there(run, seen)
    known = state.decoding.known_tables.get(section(run).type or "")
    if known is not None and str(seen.table_id) != known:
        raise BadInput(
            f"table {decode.table.uri} is another one: its id is {seen.table_id}, the ledger knows"
            f" {known}; nothing was folded. Next: tideline decode FILE, which says what to do"
        )
    covered = covered_ranges(state.decoding.coverage, _topic(run))
    own = {*OWN_COLUMNS, *(OF_ENVELOPE if decode.value.envelope else ())}
    own |= {UNAVAILABLE} if _has_unavailable(run) else set()
    own |= {INVALID} - {name for p in state.decoding.parts for name in p.reader.names}
    sequence = sequence_of(layout.sequence, columns)
    names = [c.name for c in sequence]
    at, head, order = now(), state.head, state.head.order_of_incarnations
    return FoldPlan(
        plan_id=fold_plan_id(state.control.ledger_id, run.stream.stream, run.run_id, at),
        run_id=run.run_id,
        frozen_at=at,
        typed_table_id=str(seen.table_id),
        typed_version=version,
        ranges=covered if is_anew else work.ranges,
        again=work.again,
        covered=covered,
        is_anew=is_anew,
        layout=layout,
        columns=current_columns_of(columns, layout.key, own, folding.columns, names),
        has_unavailable=_has_unavailable(run),
        has_truncates=_has_events(run),
        deletes=folding.deletes or _deletes(run, state, layout, columns),
        eras=order.ids,
        returns=order.returns,
        partitions=tuple(partition_counts(head.identities).items()),
        order=folding.order,
        barrier=None if is_anew else folding.barrier,
        floors=folding.floors,
        sequence=sequence,
        drops=folding.drops,
        unproven_since=unproven_since(folding, head, at, older_kept(run, state, layout)),
        sums=folding.sums,
        table_uri=section(run).table.uri,
        by=run.request.by,
    )


def _topic(run: RunContext) -> str:
    return run.stream.kafka.topics[0]


def _layout(run: RunContext, state: LedgerState, columns: Sequence[Field]) -> Layout | None:
    """Key and buckets, as the stream file says them; None before anything was decoded.

    Raises:
        BadInput: The key is none.
    """
    if not columns:
        return None
    key = section(run).key
    if key is None:
        part = state.decoding.part("key")
        key = [] if part is None else [c.name for c in part.reader.in_table]
    if not key:  # no key has come yet
        return None
    sequence = section(run).sequence_by or ()
    if (wrong := wrong_key(key, columns, sequence)) is not None:
        raise BadInput(f"stream {run.stream.stream}: current.key: {wrong}. Nothing was folded")
    if (wrong := wrong_sequence(sequence, columns)) is not None:
        raise BadInput(
            f"stream {run.stream.stream}: current.sequence_by: {wrong}. Nothing was folded"
        )
    buckets, of_type = section(run).table.buckets, section(run).type or ""
    return Layout(tuple(key), buckets, sequence=tuple(sequence), type=of_type)


def _deletes(
    run: RunContext, state: LedgerState, layout: Layout, columns: Sequence[Field]
) -> Deletes:
    """Which changes say that a row is gone.

    Raises:
        BadInput: The stream file names a column for it that is not there: no delete would be seen.
            Or its values are no texts. Or the key has rows that nothing could ever delete.
    """
    names = [str(c["name"]) for c in columns]
    when, part = section(run).deletes.when, state.decoding.part("key")
    in_table = [] if part is None else [c.name for c in part.reader.in_table]
    deletes = Deletes(section(run).tombstones(_decode(run)))
    if when is not None and when.column not in names:
        raise BadInput(
            f"stream {run.stream.stream}: current.deletes.when.column: got {when.column!r}; no"
            f" column of the typed table; allowed: {', '.join(names)}. Nothing was folded"
        )
    if when is not None:
        deletes = replace(deletes, column=when.column, equals=when.equals)
    elif _has_events(run):
        deletes = replace(deletes, column="op", equals="d")
    elif "__deleted" in names:
        deletes = replace(deletes, column="__deleted", equals="true")
    if (wrong := wrong_mark(deletes.column, columns)) is not None:
        raise BadInput(
            f"stream {run.stream.stream}: current.deletes.when.column: {wrong}. Nothing was folded"
        )
    if in_table and deletes.column is not None:
        untold = tuple(n for n in layout.key if n not in in_table)
        deletes = replace(deletes, untold=untold, told=tuple(in_table) if untold else ())
    passes = not deletes.tombstones or bool(deletes.untold)
    deletes = replace(deletes, passes=passes and "is_tombstone" in names)
    if (wrong := wrong_deletes(layout.key, deletes, in_table)) is not None:
        raise BadInput(f"stream {run.stream.stream}: current.key: {wrong}. Nothing was folded")
    return deletes


def _has_unavailable(run: RunContext) -> bool:
    """Whether changes may lack values of columns."""
    return _decode(run).value.unavailable is not None


def _has_events(run: RunContext) -> bool:
    """Whether the typed rows are of change events, with an `op`."""
    return _decode(run).value.envelope is not None


def _decode(run: RunContext) -> Decode:
    return run.stream.source
