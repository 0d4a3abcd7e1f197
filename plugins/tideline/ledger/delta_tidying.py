"""Keep the files of a Delta ledger's history few, beside everybody who reads and writes it.

Every so many commits, whoever committed merges each segment that lies in several files, and then
a hundred past segments of one kind into a compacted one. A merge is one Delta transaction that
takes out the files that it was made from. Two that take out the same file conflict, and the second
gives up: its work is done. delta-rs' own `optimize.compact` commits both of them (1.6.6), and every
record then stands twice; versions of before used it. What they left doubled is merged here as well.

Files that were taken out are deleted a day later, when no reader is that far behind.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from deltalake import DeltaTable
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction

from tideline.errors import ServiceAway, StoreRefused
from tideline.failpoints import reach
from tideline.ledger import delta_documents
from tideline.ledger.delta_documents import (
    HISTORY,
    LedgerFiles,
    active_files,
    removal,
)
from tideline.ledger.delta_tables import LedgerTables

log = logging.getLogger("tideline")
_APP_ID = "tideline-ledger-tidy"
_SEGMENTS_PER_TIDY = 50
_KEEP_HOURS = 24
_TRIES = 10


def tidy(tables: LedgerTables, files: LedgerFiles) -> None:
    """Merge what lies in many files, delete what was taken out a day ago.

    Failures are only logged: nobody's run fails for it, and the next tidying goes on.

    Args:
        tables: Lends the ledger's table.
        files: Reads and writes its files.
    """
    try:
        with tables.newest() as table:
            if table is not None:
                merge(table, files)
                compact(table, files)
        with tables.newest() as table:
            if table is not None:
                table.vacuum(_KEEP_HOURS, dry_run=False, enforce_retention_duration=False)
    except (delta_errors.DeltaError, ServiceAway, StoreRefused, OSError) as error:
        log.warning("the ledger was not tidied, the next commits will: %s", error)


def merge(table: DeltaTable, files: LedgerFiles) -> None:
    """Bring segments of several files, or of a file that delta-rs has merged, into one file each.

    Args:
        table: The ledger's table, nobody else's object.
        files: Reads and writes its files.

    Raises:
        DeltaError: The store, or other writers, did not let it.
        ServiceAway: The store does not return or take a file.
    """
    segments: dict[str, list[str]] = defaultdict(list)
    for path, key in active_files(table):
        if key.startswith(HISTORY):
            segments[key].append(path)
    scattered = [k for k in sorted(segments) if len(segments[k]) > 1 or _is_foreign(segments[k][0])]
    # The newest first: those grow.
    for key in scattered[::-1][:_SEGMENTS_PER_TIDY]:
        _replace(table, files, [(path, key) for path in segments[key]], key)


def compact(table: DeltaTable, files: LedgerFiles) -> None:
    """Compact a hundred past segments of one kind, if there are any.

    Arguments and errors are those of `merge`.
    """
    current = _compacted(table.version() // delta_documents.COMMITS_PER_SEGMENT)
    loose: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for path, key in active_files(table):
        _, kind, number = key.split(":") if key.count(":") == 2 else ("", "", "")
        if key.startswith(HISTORY) and number.isdecimal():
            loose[kind, _compacted(int(number))].append((path, key))
    past = sorted(at for at in loose if at[1] < current)
    if past:
        kind, group = past[0]
        # "v" is for volume, the stored word for a compacted segment.
        _replace(table, files, loose[kind, group], f"{HISTORY}{kind}:v{group:06d}")


def _replace(
    table: DeltaTable, files: LedgerFiles, old: list[tuple[str, str]], document_key: str
) -> None:
    """One file with the records of several, each once; done as well if others were first."""
    found = (entry for path, _ in old for entry in files.read(table, path))
    entries = sorted(dict.fromkeys(found), key=lambda e: (e.key, e.version))
    actions: list[AddAction | RemoveAction] = [removal(path, key) for path, key in old]
    actions.append(files.write(table, document_key, entries))
    reach("tidy:written")
    for number in range(1, _TRIES + 1):
        try:
            files.commit(table, actions, _APP_ID)
        except delta_errors.CommitFailedError:
            if number == _TRIES:
                raise
        else:
            reach("tidy:merged")
        table.update_incremental()  # also after a commit: delta-rs does not always move it itself
        if not _all_active(table, old):
            return  # by this commit, or by somebody else's


def _all_active(table: DeltaTable, old: Iterable[tuple[str, str]]) -> bool:
    return set(old) <= set(active_files(table))


def _is_foreign(path: str) -> bool:
    """Whether delta-rs' own compaction wrote a file, in a folder; it may hold records twice."""
    return "/" in path


def _compacted(segment_number: int) -> int:
    return segment_number // delta_documents.SEGMENTS_PER_COMPACTED
