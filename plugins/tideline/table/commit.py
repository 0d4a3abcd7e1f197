"""Create the table; and the one commit to it: rows at coordinates are replaced (R2, R5)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import unquote

from deltalake import DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import PyFileSystem

from tideline.delta.delta_io import CREATED_ONCE, checkpoint_interval, folder_entries
from tideline.errors import BadInput, CommitConflict, Halted, VerificationFailed
from tideline.model.table_features import table_refusals
from tideline.model.wording import first_few
from tideline.store.probe import refuse_unconditional_puts
from tideline.table.columns import asked_of_writers
from tideline.table.log import NewestTable
from tideline.table.opened import Opened
from tideline.table.rewriting import rewrite
from tideline.table.rows import Reader
from tideline.table.schema import LEDGER_PROPERTY, STATISTICS_COLUMNS, STREAM_PROPERTY, TableChange
from tideline.table.statistics import Coordinates, DataFile
from tideline.table.written_files import WrittenFile, in_place, read_footer

Action = AddAction | RemoveAction

_SETTINGS = {
    # Of the first columns only, which are the coordinates: keys and values may be large.
    "delta.dataSkippingNumIndexedCols": str(STATISTICS_COLUMNS),
    "delta.enableDeletionVectors": "false",
}


def create_table(
    uri: str,
    options: Mapping[str, str],
    stream: str,
    ledger_id: str,
    partition_by: Sequence[str],
    schema: Schema,
    properties: Mapping[str, str],
) -> None:
    """Create the table as version 0, without rows; an existing table is left as it is.

    Two attempts may do this at the same time. Both succeed, and one of them creates the table.

    Args:
        stream: A table property, as the ledger's id is.
        partition_by: Columns whose values split the data files into folders, in order.
        properties: More of the table's properties.

    Raises:
        BadInput: The folder holds files, and no Delta table.
        ServiceAway: The object store does not answer.
    """
    others = sorted(
        e.base_name for e in folder_entries(uri, options, "") if e.base_name != "_delta_log"
    )
    if DeltaTable.is_deltatable(uri, dict(options)):
        return
    if others:
        raise BadInput(
            f"table {uri}: the folder is not empty and holds no Delta table:"
            f" it contains {others[0]}; give the stream another folder, or empty this one"
        )
    refuse_unconditional_puts(uri, options)
    try:
        DeltaTable.create(
            uri,
            schema,
            mode="ignore",
            partition_by=list(partition_by),
            configuration={
                STREAM_PROPERTY: stream,
                LEDGER_PROPERTY: ledger_id,
                **properties,
                **_SETTINGS,
                **checkpoint_interval(uri),
            },
            storage_options=dict(options),
            commit_properties=CREATED_ONCE,
            raise_if_key_not_exists=False,  # Delta does not know Tideline's two properties
        )
    except DeltaError:
        if not DeltaTable.is_deltatable(uri, dict(options)):
            raise


def commit_change(
    kept: NewestTable,
    table: Opened,
    store: PyFileSystem,
    change: TableChange,
    added: Iterable[WrittenFile],
    active: Collection[DataFile],
    read: Reader,
) -> None:
    """Commit a change as the version right after the given one.

    Args:
        kept: Writes the log.
        table: The version that the caller has checked, as `kept` gave it.
        added: The attempt's data files.
        active: The table's data files in that version.
        read: Reads the coordinates of one of these.

    Raises:
        VerificationFailed: A file of the attempt is gone, or is not as it was written.
        CommitConflict: A file that is to be replaced by a merged one has gone.
    """
    holding_rows = [f for f in added if f.rows]
    metadata = change.metadata(
        rows=sum(f.rows for f in holding_rows), bytes=sum(f.size for f in holding_rows)
    )
    actions: list[Action] = [f.action() for f in holding_rows]
    actions += _taken_out(store, change, active, read)
    actions += _exchanged(table, store, change, active)
    actions += _replaced(table, change, active)
    _refuse_gone(store, change, holding_rows)
    kept.commit(table, actions, metadata, Transaction(change.app_id, change.token))


def _refuse_gone(store: PyFileSystem, change: TableChange, added: Sequence[WrittenFile]) -> None:
    """Look again at files whose footers were read before: a vacuum takes what no commit names."""
    there = in_place(store, {file.path: file.size for file in added})
    if gone := [f"{f.path} ({f.size} bytes)" for f in added if f.path not in there]:
        raise VerificationFailed(
            f"{change.commit_id}: {len(gone)} of {len(added)} data files are no longer there as"
            f" they were written: {first_few(gone, 1)}; a program has deleted files that were"
            " younger than this run: let it keep them for longer. Nothing was committed, clear the"
            " task or run again",
            commit_id=change.commit_id,
        )


def refuse_unwritable(table: Opened, wanted: Schema) -> None:
    """Refuse a table that asks for Delta's own writer (ADR 20).

    Every look refuses it, too; a removal commits without one, and somebody may be quicker.

    Args:
        table: The version that is written to.
        wanted: The columns that it has to have.

    Raises:
        Halted: It does; names what, and what to do.
    """
    if found := tuple(table_refusals(asked_of_writers(table, wanted))):
        raise Halted(
            f"table {table.table_uri} asks for Delta's own writer:"
            f" {'; '.join(f'{r.name}: {r.why}' for r in found)}. Tideline adds and removes files"
            " itself and would break what this promises. Nothing was changed; do this, then run"
            f" again: {'; '.join(dict.fromkeys(r.remedy for r in found))}",
            reasons=[r.name for r in found],
        )


def _taken_out(
    store: PyFileSystem, change: TableChange, active: Iterable[DataFile], read: Reader
) -> list[Action]:
    """What removes the rows at the coordinates: whole files, and files written again."""
    wanted = Coordinates(change.ranges)
    actions: list[Action] = []
    for file in active:
        if not wanted.may_be_in(file):
            continue
        if not wanted.hold_all_of(file):
            # Counted from the rows: another writer's log entry may say nothing, or nothing true.
            found = [wanted.mask(identity, offsets) for identity, offsets in read(file)]
            inside = sum(int(mask.sum()) for mask in found)
            if not inside:
                continue
            if inside < sum(map(len, found)):
                path = rewrite(store, file, wanted, change.folder)
                actions.append(read_footer(store, path, file.partition or {}).action())
        actions.append(_removal(file))
    return actions


def _exchanged(
    table: Opened, store: PyFileSystem, change: TableChange, active: Collection[DataFile]
) -> list[Action]:
    """What puts merged files in place of those with the same rows, and says that no data changes.

    delta-rs takes out a file that is not there without a word; its rows would then stand twice.
    """
    there = {file.path: file for file in active}
    gone = [path for merge in change.merges for path in merge.old if path not in there]
    if gone:
        raise CommitConflict(
            f"table {table.table_uri}: {gone[0]} and {len(gone) - 1} further files that were merged"
            " are no longer part of it; nothing was committed",
            table=table.table_uri,
        )
    actions: list[Action] = []
    for merge in change.merges:
        new = read_footer(store, merge.new, dict(merge.partition))
        actions.append(new.action(changes_data=False))
        actions += [_removal(there[path], changes_data=False) for path in merge.old]
    return actions


def _replaced(table: Opened, change: TableChange, active: Collection[DataFile]) -> list[Action]:
    """What takes out the files whose rows the attempt has written anew."""
    there = {unquote(file.path): file for file in active}
    if gone := [path for path in change.takes_out if path not in there]:
        raise CommitConflict(
            f"table {table.table_uri}: {first_few(gone, 1)} of {len(change.takes_out)} files is no"
            " longer part of it; nothing was committed",
            table=table.table_uri,
        )
    return [_removal(there[path]) for path in change.takes_out]


def _removal(file: DataFile, *, changes_data: bool = True) -> RemoveAction:
    """Take a file out of the table; delta-rs encodes the path itself."""
    partition: Mapping[str, str | None] = file.partition or {}
    return RemoveAction(
        unquote(file.path), changes_data, int(time.time() * 1000), file.size, dict(partition)
    )
