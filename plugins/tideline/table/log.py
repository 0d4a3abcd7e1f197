"""A table's log: its newest version, and the commits in it.

The table is an object that is moved on instead of opened anew: opening reads the last checkpoint
and every commit since, twice; moving on lists what is newer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from deltalake import DeltaTable
from deltalake import exceptions as delta_errors
from obstore.exceptions import BaseError

from tideline.delta_io import read_commit
from tideline.delta_log import DeltaLog
from tideline.model.head import KnownCommit
from tideline.model.observation import LoggedCommit
from tideline.model.run import TableCommit
from tideline.model.timings import SparkTimes
from tideline.store.probe import refuse_web_pages
from tideline.store.settings import ROLE
from tideline.table.schema import LEDGER_PROPERTY, ranges_in, read_commit_metadata

_LOOKED_BACK = 20
"""Commits that are read for a transaction before delta-rs is asked."""


class NewestTable:
    """Not for threads to share. Whoever gets the table object uses it before the next call."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = dict(options)
        self._log = None if ROLE in options else DeltaLog(uri, options)
        self._table: DeltaTable | None = None
        self._newest_commit: tuple[dict[str, Any], ...] | str | None = None
        self._tokens: dict[str, int | None] = {}  # at the version of `_table`
        self._commits: dict[int, tuple[Mapping[str, Any], ...]] = {}  # they never change

    def newest(self) -> DeltaTable | None:
        """The table at its newest version; None where there is no table.

        The object that is there is moved on if its newest commit still stands in the log as it was
        read: another table may stand at the address by now.

        Raises:
            DeltaError: The table cannot be read.
            OSError: The store cannot be reached.
            StoreRefused: A web server answers in its place.
        """
        table, self._table = self._table, None  # nobody knows its state after an error
        is_as_read, is_newer = (False, True) if table is None else self._look(table)
        if table is not None and is_as_read:
            if is_newer:
                table.update_incremental()
            else:
                self._table = table
                return table
        else:  # another log may stand here, also after an error
            table = self._opened(None)
            self._commits.clear()
        self._tokens.clear()
        if table is not None:
            self._newest_commit = self._identity(table)
            self._table = table
        return table

    def at(self, version: int) -> DeltaTable | None:
        """The table at one version; None where there is no table.

        Raises:
            DeltaError: The table has no such version, or it cannot be read.
            OSError: The store cannot be reached.
            StoreRefused: A web server answers in its place.
        """
        if self._table is not None and self._table.version() == version:
            return self._table
        table = self._opened(version)
        if table is None and self._opened(None) is not None:  # that is what delta-rs says, too
            raise delta_errors.DeltaError(f"the log has no version {version} any more")
        return table

    def token(self, table: DeltaTable, app_id: str) -> int | None:
        """Delta's transaction version of an application, as `table` has it.

        The newest commit that names it has it, mostly the newest of all. delta-rs reads every
        commit since the last checkpoint for it.

        Args:
            table: What `newest` gave last.

        Raises:
            DeltaError: The table cannot be read.
            OSError: The store cannot be reached.
        """
        if app_id not in self._tokens:
            self._tokens[app_id] = self._newest_token(table, app_id)
        return self._tokens[app_id]

    def _newest_token(self, table: DeltaTable, app_id: str) -> int | None:
        versions = range(table.version(), max(table.version() - _LOOKED_BACK, -1), -1)
        for version in versions if self._log is not None else ():
            if (actions := self.actions(table, version)) is None:
                break
            tokens = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
            if app_id in tokens:
                return int(tokens[app_id])
            if version == 0:
                return None
        return table.transaction_version(app_id)

    def actions(self, table: DeltaTable, version: int) -> tuple[Mapping[str, Any], ...] | None:
        """The actions of a commit, in the log's order; None if log cleanup has removed its file.

        Args:
            table: What `newest` gave last.

        Raises:
            OSError: The store cannot be reached.
        """
        if self._log is None:
            return read_commit(table, version, self._options)
        if (known := self._commits.get(version)) is not None:
            return known
        with _as_os_errors():
            found = self._log.actions(version)
        if found is not None:
            self._commits[version] = found
        return found

    def history(self, table: DeltaTable, count: int | None = None) -> Iterator[Mapping[str, Any]]:
        """What commits say about themselves, with their versions, the newest first.

        Args:
            table: What `newest` gave last.
            count: How many; None for all that the log still has.

        Raises:
            DeltaError: The table cannot be read.
            OSError: The store cannot be reached.
        """
        if self._log is None:
            yield from table.history(count)
            return
        last = -1 if count is None else max(table.version() - count, -1)
        for version in range(table.version(), last, -1):
            if (actions := self.actions(table, version)) is None:
                return
            about = [a["commitInfo"] for a in actions if "commitInfo" in a]
            yield {**(about[0] if about else {}), "version": version}

    def _opened(self, version: int | None) -> DeltaTable | None:
        try:
            return DeltaTable(self._uri, version=version, storage_options=self._options)
        except delta_errors.TableNotFoundError:
            refuse_web_pages(self._uri, self._options)
            return None

    def _look(self, table: DeltaTable) -> tuple[bool, bool]:
        """Whether the newest commit still stands as it was read, and whether there may be others.

        Through our own client that is one request, and it tells whether there are.
        """
        if self._log is None:
            return self._identity(table) == self._newest_commit is not None, True
        with _as_os_errors():
            tag, is_newer = self._log.look(table.version())
        return tag is not None and tag == self._newest_commit, is_newer

    def _identity(self, table: DeltaTable) -> tuple[dict[str, Any], ...] | str | None:
        """What tells the newest commit from another one at its place."""
        if self._log is None:
            return read_commit(table, table.version(), self._options)
        with _as_os_errors():
            return self._log.look(table.version())[0]


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Obstore's errors as delta-rs' store has them."""
    try:
        yield
    except BaseError as error:
        raise OSError(str(error)) from error


def find_commit(
    kept: NewestTable, table: DeltaTable, plan_id: str, after_version: int | None
) -> TableCommit | None:
    """The newest commit of a plan, among those after a version (exclusive).

    Raises:
        NewerFormat: A newer version of Tideline made one of them.
    """
    count = table.version() - (-1 if after_version is None else after_version)
    if count <= 0:
        return None
    for commit in kept.history(table, count):
        metadata = read_commit_metadata(commit.get("userMetadata"), _where(table, commit))
        if metadata is not None and metadata["plan_id"] == plan_id:
            return _table_commit(str(table.metadata().id), commit, metadata)
    return None


def commits_above(kept: NewestTable, table: DeltaTable, token: int) -> tuple[KnownCommit, ...]:
    """The commits of the table's ledger with a larger token, newest first, with all their ranges.

    Tokens grow with versions, so only the part of the log that holds them is read.

    Raises:
        NewerFormat: A newer version of Tideline made one of them.
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
        found.append(KnownCommit(*made, ranges_in(metadata)))
    return tuple(found)


def newer_commits(
    kept: NewestTable, table: DeltaTable, known_version: int | None
) -> tuple[LoggedCommit, ...]:
    """The commits after a version (exclusive), oldest first; as many as the log still has.

    What a commit of another program did is read from its actions, one small file each: the name of
    an operation says what somebody wanted, and there are new names in every release.

    Args:
        table: At its newest version.
        known_version: The version; None lists nothing.

    Raises:
        NewerFormat: A newer version of Tideline made one of them.
        OSError: The store cannot be reached.
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
                removes_rows=not is_ours and removes_rows(operation, kept.actions(table, version)),
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


def _where(table: DeltaTable, commit: Mapping[str, Any]) -> str:
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
