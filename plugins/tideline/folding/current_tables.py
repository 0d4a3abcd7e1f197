"""The current table as the ledger knows it, before a fold; and how folding halts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideline.decoding import decode_rules
from tideline.decoding.decode_rules import TypedTable
from tideline.documents import load
from tideline.errors import BadInput, FoldingHalted, ServiceAway
from tideline.folding.fold_rules import layout_text
from tideline.landing.context import RunContext, log, now
from tideline.ledger.state import LedgerState
from tideline.model.current import BUCKET, Folding, FoldPlan, Layout, SealedFold
from tideline.model.head import KnownCommit
from tideline.model.incident import Finding
from tideline.model.observation import TableObservation
from tideline.model.offsets import OffsetRange
from tideline.model.places import NOWHERE, Places
from tideline.rules.foreign_changes import changes_by_others
from tideline.stream.current_section import Current
from tideline.table.schema import PartitionFiles, is_plan
from tideline.table.table_port import TablePort


def section(run: RunContext) -> Current:
    """The stream file's section about the current table."""
    assert run.stream.current is not None
    return run.stream.current


def table_of(run: RunContext) -> TablePort:
    """The current table."""
    assert run.current is not None
    return run.current


def refuse_other_type(run: RunContext, folding: Folding) -> None:
    """Make sure that the stream file names the event type whose changes are folded.

    Raises:
        BadInput: It names another one: the changes of that are none of the table's.
    """
    named = section(run).type or ""
    if folding.layout is not None and folding.layout.type != named:
        raise BadInput(
            f"stream {run.stream.stream}: current.type: got {named or 'nothing'}; what is folded is"
            f" of {folding.layout.type or 'no type'}. Nothing was done. Next: put that back; or"
            " give current.table another address, then tideline fold FILE"
        )


def fold_begins_anew(run: RunContext, state: LedgerState, layout: Layout) -> bool:
    """Whether what the ledger calls folded is not in the table: then all is folded anew.

    A new table is a new beginning. So is a table that holds a fold which the ledger does not know:
    the ledger was put back, and its sums are of an earlier state.

    Raises:
        BadInput: The table is somebody else's, another one, or has another layout.
        ServiceAway: The store is away.
    """
    folding = state.folding
    table = TypedTable("current.table.uri", section(run).table.uri, table_of(run).observe())
    if not table.seen.exists:
        return True
    known = {} if folding.table_id is None else {table.name: folding.table_id}
    is_new = not known or decode_rules.decoding_begins_anew([table], known)
    if wrong := _refusal(run, state, table, layout, {} if is_new else known):
        raise BadInput(
            f"stream {run.stream.stream}: {wrong}. Nothing was folded. Next: give current.table"
            " another address: the current table is rebuilt"
        )
    if is_new or folding.layout is None:
        return True
    if (table.seen.token or 0) <= (folding.token or 0):
        return False
    if forgotten := forgotten_folds(table_of(run), folding):
        log.warning(
            "the current table has the fold of run %s, which the ledger does not know: all is"
            " rebuilt",
            forgotten[0].run_id,
        )
    return bool(forgotten)


def other_table(run: RunContext, state: LedgerState, seen: TableObservation) -> str | None:
    """Why a table is not the one that was folded, or its files alone do not say what it holds.

    Args:
        seen: The table as it is now.

    Returns:
        It in words; None where nothing speaks against the table, or it is gone.
    """
    folding, table = state.folding, TypedTable("current.table.uri", section(run).table.uri, seen)
    if folding.layout is None or folding.table_id is None or not seen.exists:
        return None
    return _refusal(run, state, table, folding.layout, {table.name: folding.table_id})


def taken_by_others(run: RunContext, state: LedgerState) -> str | None:
    """What others did to the table since the last fold that takes rows away, in words; or None.

    Sums tell of buckets that a fold touches, and the log of those whose number of rows is another
    one. A version that somebody has put back may have as many rows.

    Raises:
        ServiceAway: The store is away.
    """
    if (known := state.folding.known) is None:
        return None
    seen = table_of(run).observe(known.version - 1)
    is_same = seen.version is not None and str(seen.table_id) == state.folding.table_id
    return taken_since(seen, known) if is_same else None  # another one is told elsewhere


def refuse_taken(run: RunContext, state: LedgerState) -> None:
    """Make sure that the table is as the last fold has left it, before somebody reads its rows.

    Raises:
        BadInput: Others have taken rows away since.
    """
    if taken := taken_by_others(run, state):
        raise BadInput(
            f"stream {run.stream.stream}: current table {section(run).table.uri}: {taken}. Next:"
            " tideline fold FILE, which sums every bucket"
        )


def taken_since(seen: TableObservation, known: KnownCommit) -> str | None:
    """The same of a table that was looked at, with its commits from a known one on."""
    found = changes_by_others(seen, known.version, str(seen.ledger_id), (known,))
    return next((f"{f.detail} since version {known.version}: {f.actual}" for f in found), None)


def note_newest_commit(run: RunContext) -> None:
    """Note the table's newest commit, if it is this ledger's: what stands there is as it was left.

    Args:
        run: This run, with the decoder's lease.
    """
    newest = table_of(run).observe().version
    if newest is None or run.ledger.read().folding.known is None:
        return
    made = commit_in(seen_from(run, newest), newest, run.run_id)
    if made is not None:
        token = made.token
        run.ledger.update(lambda s: replace(s, folding=replace(s.folding, known=made, token=token)))


def last_sealed_fold(run: RunContext) -> str:
    """What the last fold's commit tells, or the one at which the log was cut since; "" for none."""
    if (last := run.ledger.read().folding.known) is None:
        return ""
    return next((c.fold for c in table_of(run).commits_above(last.token - 1) if c.fold), "")


def commit_in(seen: TableObservation, version: int, run_id: str) -> KnownCommit | None:
    """This ledger's commit that made a version, of a table with its commits from there on."""
    for made in seen.newer[:1]:
        if made.version == version and made.ledger_id == seen.ledger_id and made.token is not None:
            return KnownCommit(version, made.token, str(made.commit_id), run_id)
    return None


def forgotten_folds(table: TablePort, folding: Folding) -> tuple[KnownCommit, ...]:
    """The folds in a current table's log that the ledger does not know, newest first.

    A commit at which a log was cut tells of the last one before it.
    """
    ours = None if folding.open is None else folding.open.plan.plan_id
    newer = table.commits_above(folding.token or 0)
    return tuple(c for c in newer if (is_plan(c.commit_id) or c.fold) and c.commit_id != ours)


def last_folded(run: RunContext) -> FoldPlan | None:
    """What the ledger's last closed fold has folded; None where there was no fold."""
    closings = list(run.ledger.fold_closings())
    return closings[-1].plan if closings else None


def recover_folds(run: RunContext, state: LedgerState) -> tuple[SealedFold | None, Places] | None:
    """What folds have sealed that the ledger has forgotten; None where it has forgotten none.

    They are in the log of today's table; or, before that has a fold, of the one before it.

    Returns:
        What the newest one tells, None if it is of a version that told nothing; and what counts as
        a lost delete in its stead: the first offset of each log, which any sweep heals.

    Raises:
        ServiceAway: The store is away.
    """
    table, last = table_of(run), None
    if (seen := table.observe()).token is None:
        last = last_folded(run)
        if last is None or run.open_table is None:
            return None
        table = run.open_table("current", last.table_uri)
        seen = table.observe()
    if not seen.exists or seen.ledger_id != state.control.ledger_id:
        return None
    if not (forgotten := forgotten_folds(table, state.folding)):
        return None
    newest = forgotten[0]
    is_of_type = last is None or last.layout.type == (section(run).type or "")
    tells = bool(newest.fold) and is_of_type
    where = f"version {newest.version} of {table.uri}"
    log.warning(
        "the fold of %s, which the ledger does not know, %s",
        where,
        "tells which rows were swept, and which deletes may have been lost"
        if tells
        else "does not tell whether rows were swept: tideline sweep once more",
    )
    if tells:
        return load(SealedFold, newest.fold, where), NOWHERE
    firsts = ((log_of, r[0].start_offset) for log_of, r in state.head.coverage.items())
    return None, Places.of_pieces((i, OffsetRange(o, o + 1)) for i, o in firsts)


def _refusal(
    run: RunContext,
    state: LedgerState,
    table: TypedTable,
    layout: Layout,
    known_ids: Mapping[str, str],
) -> str | None:
    """Why the table is not to be touched; None where nothing speaks against it."""
    wrong = [
        *decode_rules.reasons_not_to_touch([table], run.stream.stream, state.control.ledger_id)
    ]
    wrong += decode_rules.unknown_tables([table], known_ids) if known_ids else ()
    text = layout_text(layout)
    if not wrong and table.seen.layout != text:
        wrong.append(
            f"{table} was created with {table.seen.layout}; the stream file says {text}, and key,"
            " buckets and order are fixed"
        )
    return "; ".join(wrong) or None


def fold_halted(run: RunContext, finding: Finding) -> FoldingHalted:
    """Open an incident about the fold; the error that names it."""
    state = run.ledger.update(lambda s: s.with_folding_halted(finding, run.run_id, now()))
    incident = state.folding.incidents[-1]
    return FoldingHalted(
        f"{incident} Landed and typed rows stay; landing and decoding continue",
        incidents=(incident,),
    )


def version_and_token(run: RunContext) -> tuple[int, int]:
    """The current table's version, and its newest fencing token; 0 for none.

    Raises:
        ServiceAway: It is gone.
    """
    seen = seen_from(run, None)
    assert seen.version is not None
    return seen.version, seen.token or 0


def seen_from(run: RunContext, version: int | None) -> TableObservation:
    """The current table, with its commits from a version on (inclusive); None lists none.

    Raises:
        ServiceAway: It is gone.
    """
    seen = table_of(run).observe(None if version is None else version - 1)
    if seen.version is None:
        uri = section(run).table.uri
        raise ServiceAway(f"table {uri} is gone: nothing moved, restore it, then run again")
    return seen


def files_by_bucket(run: RunContext, version: int) -> dict[int, PartitionFiles]:
    """The data files of each bucket that has some."""
    found = table_of(run).files_by(BUCKET, version)
    return {int(str(bucket)): files for bucket, files in found.items()}
