"""The ledger as a small Delta table: no JVM, next to the data.

One row is one document; the partition column `slot` is its key (`delta_files`). A commit is one
Delta transaction that removes the files of replaced documents and adds the new ones, with a
transaction id of our own. A commit is a put that may only create its version, and of two from one
version the second is refused: that is the compare-and-swap (`delta_log`, `delta_logs`). Reading the
state opens the state's files only, so it costs O(partitions), however long the history is.

A history copied from another location has larger versions than this table has commits. The
document `ahead`, a plain number, says by how much the ledger's version is ahead of the table's.

Every so many commits, whoever committed tidies the history: each segment that lies in several files
becomes one file, and a hundred past segments of one kind become a compacted one. A merge is one
Delta transaction that takes out the files that it was made from. Two that take out the same file
conflict, and the second gives up: its work is done. delta-rs' own `optimize.compact` commits both
of them (1.6.6), and every record then stands twice; versions of before used it. What they left
doubled is merged here as well. Files that were taken out are deleted a day later, when no reader is
that far behind.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction

from tideline.delta.delta_io import CREATED_ONCE, checkpoint_interval
from tideline.errors import BadInput, CommitConflict, TidelineError
from tideline.failpoints import reach
from tideline.ledger.delta_files import (
    COMMITS_PER_TIDY,
    HISTORY,
    SCHEMA,
    by_age,
    compacted_key,
    current_group,
    group_of,
    may_hold_kind,
    removal,
    segment_key,
)
from tideline.ledger.delta_logs import LedgerLogs, LogFile, View
from tideline.ledger.ledger_port import HistoryEntry, Snapshot
from tideline.secrecy import redacted_line
from tideline.store.probe import refuse_unconditional_puts

log = logging.getLogger("tideline")
_APP_ID, _TIDY_APP_ID = "tideline-ledger", "tideline-ledger-tidy"
_SEGMENTS_PER_TIDY = 50
_TRIES = 10
_AHEAD = "ahead"
_CONFIGURATION: dict[str, str | None] = {"delta.logRetentionDuration": "interval 1 days"}


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a snapshot was read from: what a commit on it replaces.

    Args:
        view: The table, as it was then.
        files: Document keys by path, of the state's files.
        ahead: How far the ledger's version is ahead of the table's.
    """

    view: View
    files: Mapping[str, str]
    ahead: int


class DeltaLedgerStore:
    """Documents and history in one Delta table. Threads may share it."""

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._uri = uri
        self._options = dict(storage_options or {})
        self._logs = LedgerLogs(uri, self._options)
        self._files = self._logs.files
        self._bodies: Mapping[str, str] = {}  # by path; a file never changes

    @property
    def location(self) -> str:
        """Address of the ledger's table."""
        return self._uri

    def read(self) -> Snapshot:
        """All documents at the newest version."""
        view = self._logs.newest()
        if view is None:
            return Snapshot(-1, {})
        state = [f for f in view.files if not f.key.startswith(HISTORY)]
        known = self._bodies  # a run reads the same few several times
        bodies = {
            f.path: known.get(f.path) or self._files.read(f.path, size=f.size)[0].body
            for f in state
        }
        self._bodies = bodies
        documents = {f.key: bodies[f.path] for f in state}
        ahead = int(documents.pop(_AHEAD, 0))
        basis = _Basis(view, {f.path: f.key for f in state}, ahead)
        return Snapshot(view.version + ahead, documents, basis)

    def commit(
        self,
        base: Snapshot,
        *,
        put: Mapping[str, str],
        drop: Iterable[str] = (),
        history: Iterable[HistoryEntry] = (),
    ) -> Snapshot | None:
        """One Delta transaction, checked from the version that `base` was read from."""
        basis = base.basis
        if not isinstance(basis, _Basis):
            self._create()
            view = self._logs.newest()
            if view is None or view.version != 0:
                raise CommitConflict(f"{self._uri}: another writer wrote into the new ledger")
            basis = _Basis(view, {}, 0)
        dropped = {*drop}
        made = self._commit(basis, put, dropped, list(history))
        if (basis.view.version + 1) % COMMITS_PER_TIDY == 0:
            tidy(self._logs)
            return None
        if made is None:
            return None
        left = {k: v for k, v in base.documents.items() if k not in dropped}
        return Snapshot(made.view.version + made.ahead, {**left, **put}, made)

    def _commit(
        self,
        basis: _Basis,
        put: Mapping[str, str],
        drop: set[str],
        history: list[HistoryEntry],
    ) -> _Basis | None:
        """Commit on what was read; what a next commit is to be made of, where that is known."""
        version, ahead = basis.view.version + 1, basis.ahead
        self._logs.refuse_moved(basis.view)
        # entries of another location keep their versions: the ledger's has to pass them
        newest = max((e.version for e in history), default=-1)
        if newest > version + ahead:
            ahead = newest - version
            put = {**put, _AHEAD: str(ahead)}
        replaced, written = {*put, *drop}, dict[str, str]()
        actions: list[AddAction | RemoveAction] = [
            removal(path, key) for path, key in basis.files.items() if key in replaced
        ]
        for key, body in put.items():
            added = self._files.write(key, [HistoryEntry("state", key, body, version)])
            actions.append(added)
            written[added.path] = key
        closed: dict[str, list[HistoryEntry]] = defaultdict(list)
        for e in history:
            given = e.version if e.version >= 0 else version + ahead
            closed[e.kind].append(replace(e, version=given))
        for kind, entries in closed.items():
            actions.append(self._files.write(segment_key(kind, version), entries))
        view = self._logs.commit(basis.view, actions, _APP_ID)
        self._bodies = {**self._bodies, **{path: put[key] for path, key in written.items()}}
        if view is None:
            return None
        left = {path: key for path, key in basis.files.items() if key not in replaced}
        return _Basis(view, {**left, **written}, ahead)

    def _create(self) -> None:
        refuse_unconditional_puts(self._uri, self._options)
        try:
            DeltaTable.create(
                self._uri,
                SCHEMA,
                mode="error",
                partition_by=["slot"],
                configuration=_CONFIGURATION | checkpoint_interval(self._uri),
                storage_options=self._options,
                commit_properties=CREATED_ONCE,
            )
        except delta_errors.TableNotFoundError as error:
            first_line = redacted_line(str(error).splitlines()[0])
            raise BadInput(
                f"ledger {self._uri}: the address cannot be used: {first_line}; correct"
                " table.uri or ledger_uri, or grant access to it",
                ledger=self._uri,
            ) from error
        except delta_errors.DeltaError as error:
            if self._logs.newest() is None:
                raise self._files.failure(error) from error
            raise CommitConflict(f"{self._uri}: another writer created the ledger") from error
        except OSError as error:
            raise self._files.failure(error) from error

    def history(
        self, kind: str, key: str | None = None, at: Snapshot | None = None
    ) -> Iterator[HistoryEntry]:
        """Closed records of a kind; one that is there twice counts once.

        Versions of before merged segments in a way that could leave every record twice.
        """
        basis = None if at is None else at.basis
        view = basis.view if isinstance(basis, _Basis) else self._logs.newest()
        found = [
            entry
            for file in (() if view is None else view.files)
            if may_hold_kind(file.key, kind) and file.may_hold(key)
            for entry in self._files.read(file.path, key, size=file.size)
            if entry.kind == kind and key in (None, entry.key)
        ]
        yield from sorted(dict.fromkeys(found), key=lambda e: e.version)

    def recent(self, kind: str) -> Iterator[HistoryEntry]:
        """Closed records of a kind, the newest first, segment by segment."""
        view = self._logs.newest()
        held = {f.path: f for f in (() if view is None else view.files)}
        segments = ((f.path, f.key) for f in held.values() if may_hold_kind(f.key, kind))
        for paths in by_age(segments):
            read = (self._files.read(p, size=held[p].size) for p in paths)
            found = {e for entries in read for e in entries if e.kind == kind}
            yield from sorted(found, key=lambda e: e.version, reverse=True)


def tidy(logs: LedgerLogs) -> None:
    """Merge what lies in many files, delete what was taken out a day ago.

    Failures are only logged: nobody's run fails for it, and the next tidying goes on.
    """
    try:
        for step in (merge, compact):
            if (view := logs.newest()) is not None:
                step(logs, view)
        logs.clean()
    except (delta_errors.DeltaError, TidelineError, OSError) as error:
        log.warning("the ledger was not tidied, the next commits will: %s", error)


def merge(logs: LedgerLogs, view: View) -> None:
    """Bring segments of several files, or of one that delta-rs has merged, into a file each."""
    segments: dict[str, list[LogFile]] = defaultdict(list)
    for file in view.files:
        if file.key.startswith(HISTORY):
            segments[file.key].append(file)
    scattered = [k for k in sorted(segments) if len(segments[k]) > 1 or _is_foreign(segments[k][0])]
    # the newest first: those grow
    for key in scattered[::-1][:_SEGMENTS_PER_TIDY]:
        _replace(logs, segments[key], key)


def compact(logs: LedgerLogs, view: View) -> None:
    """Compact a hundred past segments of one kind, if there are any. Errors as `merge`."""
    current = current_group(view.version)
    loose: dict[tuple[str, int], list[LogFile]] = defaultdict(list)
    for file in view.files:
        _, kind, number = file.key.split(":") if file.key.count(":") == 2 else ("", "", "")
        if file.key.startswith(HISTORY) and number.isdecimal():
            loose[kind, group_of(int(number))].append(file)
    past = sorted(at for at in loose if at[1] < current)
    if past:
        kind, group = past[0]
        _replace(logs, loose[kind, group], compacted_key(kind, group))


def _replace(logs: LedgerLogs, old: Sequence[LogFile], document_key: str) -> None:
    """One file with the records of several, each once; done as well if others were first."""
    found = (entry for file in old for entry in logs.files.read(file.path, size=file.size))
    entries = sorted(dict.fromkeys(found), key=lambda e: (e.key, e.version))
    actions: list[AddAction | RemoveAction] = [removal(file.path, file.key) for file in old]
    actions.append(logs.files.write(document_key, entries))
    reach("tidy:written")
    for number in range(1, _TRIES + 1):
        view = logs.newest()
        if view is None or not {f.path for f in old} <= {f.path for f in view.files}:
            return  # somebody else has done it
        try:
            logs.commit(view, actions, _TIDY_APP_ID)
        except CommitConflict:
            if number == _TRIES:
                raise
        else:
            reach("tidy:merged")
            return


def _is_foreign(file: LogFile) -> bool:
    """Whether delta-rs' own compaction wrote a file, in a folder; it may hold records twice."""
    return "/" in file.path
