"""A table's log: its newest version, and the commits in it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction
from obstore.exceptions import BaseError

from tideline.delta.delta_checkpoint import (
    DamagedLog,
    DisputedLog,
    FilesElsewhere,
    LogState,
    NotUnderstood,
)
from tideline.delta.delta_io import read_commit
from tideline.delta.delta_log import FRESH_SECONDS, STORE_ERRORS, CommitTaken, DeltaLog
from tideline.delta.delta_properties import LOG, is_known_to_delta_rs
from tideline.model.head import KnownCommit
from tideline.model.observation import LoggedCommit
from tideline.model.run import TableCommit
from tideline.model.timings import SparkTimes
from tideline.store.probe import refuse_web_pages
from tideline.store.store_settings import ROLE
from tideline.table.opened import LoggedTable, Opened
from tideline.table.schema import LEDGER_PROPERTY, ranges_in, read_commit_metadata

log = logging.getLogger("tideline")
_CLEANED = 10
"""After so many checkpoints the log is cleaned."""


class NewestTable:
    """Not for threads to share. Whoever gets a table uses it before the next call.

    Our own client reads the log, and commits. Where it does not understand it, or the store asks
    for a role, delta-rs does both.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = dict(options)
        self._log = None if ROLE in options else DeltaLog(uri, options)
        self._state: LogState | None = None
        self._table: Opened | None = None
        self._looked_at = 0.0  # by the monotonic clock
        self._newest_commit: tuple[Mapping[str, Any], ...] | None = None  # of delta-rs' object
        self._commits: dict[int, tuple[Mapping[str, Any], ...]] = {}  # they never change

    def newest(self) -> Opened | None:
        """The table at its newest version; None where there is no table.

        What is there is moved on if its newest commit still stands in the log as it was read:
        another table may stand at the address by now.

        Raises:
            DeltaError: The table cannot be read.
        """
        table, self._table = self._table, None  # nobody knows its state after an error
        looked_at = time.monotonic()
        if self._log is not None:
            try:
                self._table = self._read(self._log, table)
            except FilesElsewhere as why:
                raise delta_errors.DeltaError(_by_its_name(why)) from why
            except DisputedLog as why:
                self._moved_on(None)  # a disk that fails may give nothing: delta-rs says so
                raise delta_errors.DeltaError(_by_its_name(why)) from why
            except NotUnderstood as why:
                log.info("table %s: delta-rs reads its log: %s", self._uri, why)
                self._log, table = None, None
        if self._log is None:
            self._table = self._moved_on(table if isinstance(table, DeltaTable) else None)
        self._looked_at = looked_at
        return self._table

    def _read(self, own: DeltaLog, table: Opened | None) -> Opened | None:
        known, self._state = self._state, None
        with _as_os_errors():
            try:
                state = own.newest(known, self._commits)
                if (
                    state is not None
                    and state is not known
                    and not LoggedTable(self._uri, state).schema().fields
                ):
                    raise NotUnderstood("it has no columns")
            except (ValueError, KeyError, TypeError, AttributeError) as error:  # delta-rs names it
                raise NotUnderstood(f"it is damaged: {error}") from error
        self._state = state
        if state is None:
            refuse_web_pages(self._uri, self._options)
            return None
        if not isinstance(table, LoggedTable):
            return LoggedTable(self._uri, state)
        return table if table.state is state else LoggedTable(self._uri, state, table.described)

    def _moved_on(self, table: DeltaTable | None) -> DeltaTable | None:
        """delta-rs' object: opening it reads each commit twice, moving it on only what is new."""
        is_as_read = table is not None and self._identity(table) == self._newest_commit is not None
        if table is not None and is_as_read:
            table.update_incremental()
        else:
            table = self._opened(None)
        self._newest_commit = None if table is None else self._identity(table)
        return table

    def looked_at_now(self, version: int) -> Opened | None:
        """What `newest` gave last, if that was a moment ago, and is that version.

        It is not repeated before a commit: a commit may only create its version, so no check of who
        was first is saved.
        """
        is_fresh = self._log is not None and time.monotonic() - self._looked_at < FRESH_SECONDS
        table = self._table
        return table if is_fresh and table is not None and table.version() == version else None

    def at(self, version: int) -> Opened | None:
        """The table at one version; None where there is no table.

        Raises:
            DeltaError: The table has no such version, or it cannot be read.
        """
        if self._table is not None and self._table.version() == version:
            return self._table
        table = self._opened(version)
        if table is None and self._opened(None) is not None:  # that is what delta-rs says, too
            raise delta_errors.DeltaError(f"the log has no version {version} any more")
        return table

    def delta_rs(self) -> DeltaTable:
        """An object of delta-rs, at the newest version, for what only that does."""
        return DeltaTable(self._uri, storage_options=self._options)

    def actions(self, version: int) -> tuple[Mapping[str, Any], ...] | None:
        """The actions of a commit, in the log's order; None if log cleanup has removed its file.

        Args:
            version: Not above that of the table that `newest` gave last.

        Raises:
            DeltaError: The commit is damaged.
            OSError: The store cannot be reached.
        """
        if self._log is None:
            return self._as_logged(version)
        if (known := self._commits.get(version)) is not None:
            return known
        with _as_os_errors():
            try:
                found = self._log.actions(version)
            except DamagedLog as why:
                raise delta_errors.DeltaError(_by_its_name(why)) from why
        if found is not None:
            self._commits[version] = found
        return found

    def history(self, table: Opened, count: int | None = None) -> Iterator[Mapping[str, Any]]:
        """What commits say about themselves, with their versions, the newest first.

        delta-rs' own list counts its versions without commits that say nothing of themselves.

        Args:
            table: What `newest` gave last.
            count: How many; None for all that the log still has.
        """
        last = -1 if count is None else max(table.version() - count, -1)
        for version in range(table.version(), last, -1):
            if (actions := self.actions(version)) is None:
                return
            about = [a["commitInfo"] for a in actions if "commitInfo" in a]
            yield {**(about[0] if about else {}), "version": version}

    def commit(
        self,
        table: Opened,
        actions: Sequence[AddAction | RemoveAction],
        metadata: str,
        transaction: Transaction,
    ) -> None:
        """Make the version after the table's.

        Args:
            table: What `newest` gave last.
            metadata: `userMetadata` of the commit.

        Raises:
            CommitFailedError: Another program has made that version.
            OSError: The store cannot be reached; whether it has committed is unknown.
        """
        self._looked_at = 0.0
        if isinstance(table, DeltaTable):
            table.create_write_transaction(
                list(actions),
                "append",  # "overwrite" would remove every file
                table.schema(),
                partition_by=table.metadata().partition_columns,
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": metadata},
                    app_transactions=[transaction],
                    max_commit_retries=0,  # a retry would not check the rows of newer commits
                ),
            )
            return
        assert isinstance(table, LoggedTable)
        assert self._log is not None
        about = {
            "userMetadata": metadata,
            "txn": {"appId": transaction.app_id, "version": transaction.version},
        }
        with _as_os_errors():
            try:
                made = self._log.commit(table.state, actions, about, self._commits)
            except CommitTaken as error:
                raise delta_errors.CommitFailedError(str(error)) from error
        self._state, self._table = made, LoggedTable(self._uri, made, table.described)
        if made.is_due and self._log.checkpoint(made):
            self._clean(made)

    def cut(self) -> int:
        """Delete all of the log before the newest version; how many files went.

        Raises:
            DeltaError: The table cannot be read.
            OSError: The store cannot be reached.
        """
        table = self.newest()
        if table is None:
            return 0
        with _as_os_errors():
            files, state = DeltaLog(self._uri, self._options), self._state
            # The path of a file that was taken out may name a partition, and so a key.
            now = None if state is None else replace(state, removes=(), expiring=None)
            if self._log is None or now is None or not self._log.checkpoint(now):
                files.forget_sums(table.version())
                self.delta_rs().create_checkpoint()
            self._commits.clear()
            return files.forget_before(table.version())

    def _clean(self, state: LogState) -> None:
        """At times have delta-rs delete what the log need not keep any more."""
        if state.version % (_CLEANED * state.interval):
            return
        if not is_known_to_delta_rs(state.properties, LOG):  # it would take its default for that
            log.warning(
                "table %s: its log is not cleaned: %s is %r; write it as 'interval 30 days'",
                self._uri,
                LOG,
                state.properties[LOG],
            )
            return
        try:
            self.delta_rs().cleanup_metadata()
        except (delta_errors.DeltaError, *STORE_ERRORS) as error:
            log.warning("table %s: its log was not cleaned: %s", self._uri, error)

    def _opened(self, version: int | None) -> DeltaTable | None:
        try:
            return DeltaTable(self._uri, version=version, storage_options=self._options)
        except delta_errors.TableNotFoundError:
            refuse_web_pages(self._uri, self._options)
            return None

    def _identity(self, table: DeltaTable) -> tuple[Mapping[str, Any], ...] | None:
        """What tells the newest commit from another one at its place."""
        return self._as_logged(table.version())

    def _as_logged(self, version: int) -> tuple[Mapping[str, Any], ...] | None:
        """A commit by way of delta-rs' store."""
        try:
            return read_commit(self._uri, version, self._options)
        except DamagedLog as why:
            raise delta_errors.DeltaError(_by_its_name(why)) from why


def _by_its_name(why: NotUnderstood) -> str:
    """As delta-rs says what it finds in a table's log."""
    return f"Kernel error: {why}"


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Obstore's errors as delta-rs' store has them."""
    try:
        yield
    except BaseError as error:
        raise OSError(str(error)) from error


def find_commit(
    kept: NewestTable, table: Opened, plan_id: str, after_version: int | None
) -> TableCommit | None:
    """The newest commit of a plan, among those after a version (exclusive)."""
    count = table.version() - (-1 if after_version is None else after_version)
    if count <= 0:
        return None
    for commit in kept.history(table, count):
        metadata = read_commit_metadata(commit.get("userMetadata"), _where(table, commit))
        if metadata is not None and metadata["plan_id"] == plan_id:
            return _table_commit(str(table.metadata().id), commit, metadata)
    return None


def commits_above(kept: NewestTable, table: Opened, token: int) -> tuple[KnownCommit, ...]:
    """The commits of the table's ledger with a larger token, newest first, with all their ranges.

    Tokens grow with versions, so only the part of the log that holds them is read.
    """
    ledger_id, found = table.metadata().configuration.get(LEDGER_PROPERTY), []
    for commit in kept.history(table):
        metadata = read_commit_metadata(commit.get("userMetadata"), _where(table, commit))
        if metadata is None or metadata["ledger_id"] != ledger_id:
            continue
        if metadata["token"] <= token:
            break
        names = (metadata["plan_id"], metadata["run_id"])
        made = (int(commit["version"]), int(metadata["token"]), *names)
        erasure, fold = (str(metadata.get(name, "")) for name in ("erasure", "fold"))
        found.append(KnownCommit(*made, ranges_in(metadata), erasure=erasure, fold=fold))
    return tuple(found)


def newer_commits(
    kept: NewestTable, table: Opened, known_version: int | None
) -> tuple[LoggedCommit, ...]:
    """The commits after a version (exclusive), oldest first; as many as the log still has.

    What a commit of another program did is read from its actions, one small file each: the name of
    an operation says what somebody wanted, and there are new names in every release.

    Args:
        table: At its newest version.
        known_version: The version; None lists nothing.
    """
    count = 0 if known_version is None else table.version() - known_version
    if count <= 0:
        return ()
    ledger_of_table = table.metadata().configuration.get(LEDGER_PROPERTY)
    commits = []
    for commit in kept.history(table, count):
        version = int(commit["version"])
        metadata = read_commit_metadata(commit.get("userMetadata"), _where(table, commit))
        ledger_id = metadata["ledger_id"] if metadata is not None else None
        # The actions of our own commits need no look, and are large where a plan is.
        is_ours = ledger_id is not None and ledger_id == ledger_of_table
        operation = str(commit.get("operation"))
        commits.append(
            LoggedCommit(
                version=version,
                operation=operation,
                removes_rows=not is_ours and removes_rows(operation, kept.actions(version)),
                ledger_id=ledger_id,
                detail=json.dumps(commit.get("operationParameters", {}), sort_keys=True)[:300],
                commit_id=metadata["plan_id"] if metadata is not None else None,
                token=metadata["token"] if metadata is not None else None,
            )
        )
    return tuple(reversed(commits))


def removes_rows(operation: str, actions: Iterable[Mapping[str, Any]] | None) -> bool:
    """Whether a commit takes rows out of the table, as its actions say (Delta protocol, "Actions").

    A removed file counts if the commit says that data changed, or if no file was added in its
    place. A restore counts whatever it did: it may bring back what a replay or a rewind removed.

    Args:
        operation: Its name, as far as it has one.
        actions: The lines of the commit; None if they are gone, which fails closed.
    """
    if actions is None:
        return True
    added, removed, changed = 0, 0, False
    for action in actions:
        if "add" in action:
            added += 1
            changed = changed or bool(action["add"].get("dataChange", True))
        elif "remove" in action:
            removed += 1
            changed = changed or bool(action["remove"].get("dataChange", True))
    if operation == "RESTORE":
        return bool(added or removed)
    return bool(removed and (changed or not added))


def _where(table: Opened, commit: Mapping[str, Any]) -> str:
    return f"table {table.table_uri}: version {commit.get('version')}"


def _table_commit(
    table_id: str, commit: Mapping[str, Any], metadata: Mapping[str, Any]
) -> TableCommit:
    """Rows and bytes are in the metadata of our own commits, in the metrics of Spark's commits.

    One that does not say its rows stands for as many as were planned: fewer prove nothing.
    """
    metrics = commit.get("operationMetrics", {})
    rows = sum(len(r.offsets) for r in ranges_in(metadata))
    if "numOutputRows" in metrics:
        rows = int(metrics["numOutputRows"]) - int(metrics.get("numCopiedRows", 0))
    return TableCommit(
        table_id=table_id,
        version=int(commit["version"]),
        token=int(metadata["token"]),
        rows=int(metadata.get("rows", rows)),
        bytes=int(metadata.get("bytes", metrics.get("numOutputBytes", 0))),
        times=_times(commit, metadata),
    )


def _times(commit: Mapping[str, Any], metadata: Mapping[str, Any]) -> SparkTimes | None:
    """Commits of earlier versions do not tell them."""
    if "times" not in metadata:
        return None
    asked, began, ended = metadata["times"]
    return SparkTimes(asked, began, ended, int(commit["timestamp"]))
