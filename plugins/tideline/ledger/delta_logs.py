"""The log of a ledger's Delta table: by our own client, or by delta-rs where that cannot be.

delta-rs has the log of a store with a role to assume, for which obstore has no client, and one that
our client does not understand. Its object is a table at one version, and delta-rs checks a commit
for conflicts from the object's version on: so no thread may move the object between another's check
and commit. There is one object, behind a lock. Opening one costs some ten times what moving it on
does, so it is kept.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, NamedTuple
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction

from tideline.delta.delta_checkpoint import DamagedLog, LogState, NotUnderstood, stats_of
from tideline.delta.delta_io import from_delta, read_commit
from tideline.delta.delta_log import COMMIT_ID, FRESH_SECONDS, STORE_ERRORS, CommitTaken, DeltaLog
from tideline.errors import CommitConflict, UnreadableDocument
from tideline.ledger.delta_files import SCHEMA, LedgerFiles
from tideline.store.probe import refuse_web_pages
from tideline.store.store_settings import ROLE

log = logging.getLogger("tideline")
_KEEP_HOURS = 24


class LogFile(NamedTuple):
    """A data file of the ledger.

    Args:
        path: As in the log.
        key: Its document's.
        size: In bytes.
        statistics: Delta's, as JSON; None where it has none.
    """

    path: str
    key: str
    size: int
    statistics: str | None

    def may_hold(self, key: str | None) -> bool:
        """Whether statistics do not exclude a record's key; None is any."""
        if key is None or self.statistics is None:
            return True
        known = stats_of(self.statistics)
        low, high = (known[n].get("key") for n in ("minValues", "maxValues"))
        is_bounded = isinstance(low, str) and isinstance(high, str)
        return not is_bounded or low <= key <= high


@dataclass(frozen=True, slots=True)
class View:
    """The ledger's table at one version.

    Args:
        state: The log as our client has it; None where delta-rs read it.
        looked_at: When, by the monotonic clock.
    """

    version: int
    files: Sequence[LogFile]
    state: LogState | None = None
    looked_at: float = field(default=0.0, compare=False)


class LedgerLogs:
    """Reads the log and commits to it. Threads may share it.

    Args:
        uri: The ledger's address.
        options: delta-rs' options of its store.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri, self._options = uri, dict(options)
        self._own = None if ROLE in options else DeltaLog(uri, options)
        self.files = LedgerFiles(uri, options, self._own)
        self._state: LogState | None = None
        self._lock = RLock()
        self._table: DeltaTable | None = None  # delta-rs' object

    def newest(self) -> View | None:
        """The newest version; None where there is no ledger.

        Raises:
            ServiceAway: The store does not answer.
        """
        if self._own is not None:
            try:
                state = self._state = self._own.newest(self._state)
            except DamagedLog as why:
                raise self._damaged(why) from why
            except NotUnderstood as why:
                log.info("ledger %s: delta-rs reads its log: %s", self._uri, why)
                self._own = None
            except STORE_ERRORS as error:
                raise self.files.failure(error) from error
            else:
                if state is None:
                    refuse_web_pages(self._uri, self._options)
                return None if state is None else self._view(state)
        with self._lock:
            return self._newest_by_delta_rs()

    def refuse_moved(self, view: View) -> None:
        """Look again before a commit, unless it was looked at just now.

        A backup may have been put back, and the log have come to the same version again.

        Raises:
            CommitConflict: The log is not where the view was read.
        """
        if view.state is None or time.monotonic() - view.looked_at < FRESH_SECONDS:
            return
        found = self.newest()
        if found is None or found.state is None or found.state.place != view.state.place:
            raise CommitConflict(f"{self._uri}: the ledger is no longer at version {view.version}")

    def commit(
        self, view: View, actions: Sequence[AddAction | RemoveAction], app_id: str
    ) -> View | None:
        """Add and take out files, in the version after a view's.

        Returns:
            That version; None where it has to be read.

        Raises:
            CommitConflict: The ledger is no longer at that version; nothing was written.
            ServiceAway: The store does not answer; whether it has committed is unknown.
        """
        if view.state is None or self._own is None:
            self._commit_by_delta_rs(view, actions, app_id)
            return None
        about = {
            "tideline": "ledger",
            "txn": {"appId": app_id, "version": view.version + 1},
        }
        try:
            self._state = made = self._own.commit(view.state, actions, about)
        except CommitTaken as error:
            raise CommitConflict(f"{self._uri}: another writer was first: {error}") from error
        except STORE_ERRORS as error:
            raise self.files.failure(error) from error
        if made.is_due:
            self._own.checkpoint(made)
        return self._view(made)

    def _view(self, state: LogState) -> View:
        try:
            files = tuple(
                LogFile(path, a["partitionValues"]["slot"], a["size"], a.get("stats"))
                for path, a in state.adds.items()
            )
        except (LookupError, TypeError) as error:
            raise self._damaged(f"a file is not named as a ledger's: {error!r}") from error
        return View(state.version, files, state, time.monotonic())

    def _damaged(self, why: object) -> UnreadableDocument:
        return UnreadableDocument(
            f"ledger {self._uri}: its log (_delta_log) cannot be read: {why}; nothing is guessed,"
            " and nothing was changed. Put the ledger back from a copy, or, if the newest version"
            " alone is damaged, move that file away; the next run compares the ledger with the"
            " table",
            ledger=self._uri,
        )

    def _newest_by_delta_rs(self) -> View | None:
        table, self._table = self._table, None  # nobody knows its state after an error
        view = None if table is None else _view_of(table)
        try:
            if table is not None and view is not None:
                table.update_incremental()
                if table.version() != view.version:
                    table, view = (table if self._stands(view) else None), None
            if table is None:
                table = DeltaTable(self._uri, storage_options=self._options)
            if view is None:
                self._actions(table.version())  # of an empty one delta-rs says nothing
        except delta_errors.TableNotFoundError:
            refuse_web_pages(self._uri, self._options)
            return None
        except (delta_errors.DeltaError, OSError) as error:
            raise self.files.failure(error) from error
        self._table = table
        return view or _view_of(table)

    def _stands(self, view: View) -> bool:
        """Whether the log still has, at a view's version, the commit that the view was read from.

        If a backup was put back, the log may have come to that version again, with other files.
        """
        actions = self._actions(view.version)
        added = (unquote(a["add"]["path"]) for a in actions or () if "add" in a)
        return actions is not None and {*added} <= {unquote(file.path) for file in view.files}

    def _commit_by_delta_rs(
        self, view: View, actions: Sequence[AddAction | RemoveAction], app_id: str
    ) -> None:
        with self._lock:
            if self._table is None or self._table.version() < view.version:
                self._newest_by_delta_rs()
            table, self._table = self._table, None  # nobody knows its state after an error
            try:
                is_there = table is not None and table.version() == view.version
                if table is None or not (is_there and self._stands(view)):
                    raise CommitConflict(
                        f"{self._uri}: the ledger is no longer at version {view.version}"
                    )
                self._write(table, actions, app_id)
            except delta_errors.CommitFailedError as error:
                raise CommitConflict(f"{self._uri}: another writer was first: {error}") from error
            except (delta_errors.DeltaError, OSError) as error:
                raise self.files.failure(error) from error
            self._table = table

    def _write(
        self, table: DeltaTable, actions: Sequence[AddAction | RemoveAction], app_id: str
    ) -> None:
        """Each commit has an id: where the store's answer is lost, the log tells if it was a yes.

        Of two commits from one version with the same app id, delta-rs refuses the second.
        """
        base, commit_id = table.version(), uuid.uuid4().hex
        properties = CommitProperties(
            app_transactions=[Transaction(app_id, base + 1)],
            custom_metadata={"tideline": "ledger", COMMIT_ID: commit_id},
        )
        try:
            table.create_write_transaction(
                list(actions), "append", SCHEMA, partition_by=["slot"], commit_properties=properties
            )
        except (delta_errors.DeltaError, OSError):
            if not self._is_committed(commit_id, base):
                raise
            log.info("ledger %s: only the answer to a commit was lost", self._uri)

    def _is_committed(self, commit_id: str, after_version: int) -> bool:
        version = after_version + 1
        while (actions := self._actions(version)) is not None:
            if any(a.get("commitInfo", {}).get(COMMIT_ID) == commit_id for a in actions):
                return True
            version += 1
        return False

    def _actions(self, version: int) -> tuple[Mapping[str, Any], ...] | None:
        try:
            return read_commit(self._uri, version, self._options)
        except DamagedLog as why:
            raise self._damaged(why) from why

    def clean(self) -> None:
        """Delete files that were taken out a day ago, and what the log need not keep any more.

        Errors of delta-rs and of the store pass through.
        """
        table = DeltaTable(self._uri, storage_options=self._options)
        table.vacuum(_KEEP_HOURS, dry_run=False, enforce_retention_duration=False)
        table.cleanup_metadata()


def _view_of(table: DeltaTable) -> View:
    return View(table.version(), tuple(_files_of(table)), looked_at=time.monotonic())


def _files_of(table: DeltaTable) -> Iterator[LogFile]:
    actions = from_delta(table.get_add_actions(flatten=True))
    lows, highs = (
        actions.column(n).to_pylist() if n in actions.column_names else [None] * len(actions)
        for n in ("min.key", "max.key")
    )
    columns = [actions.column(n).to_pylist() for n in ("path", "partition.slot", "size_bytes")]
    for path, key, size, low, high in zip(*columns, lows, highs, strict=True):
        stats = {"minValues": {"key": low}, "maxValues": {"key": high}}
        yield LogFile(path, key, size, json.dumps(stats))
