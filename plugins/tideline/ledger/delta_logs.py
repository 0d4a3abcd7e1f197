"""The log of a ledger's Delta table: by our own client, or by delta-rs where that cannot be.

delta-rs has the log of a store with a role to assume, for which obstore has no client, and one that
our client does not understand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction

from tideline.delta_checkpoint import DamagedLog, LogState, NotUnderstood, stats_of
from tideline.delta_log import (
    FRESH_SECONDS,
    STORE_ERRORS,
    CommitTaken,
    DeltaLog,
)
from tideline.errors import CommitConflict, UnreadableDocument
from tideline.ledger.delta_files import LedgerFiles, LedgerTables, described_files
from tideline.store.probe import refuse_web_pages
from tideline.store.settings import ROLE

log = logging.getLogger("tideline")


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
        self._uri, self._options = uri, options
        self._own = None if ROLE in options else DeltaLog(uri, options)
        self.files = LedgerFiles(uri, options, self._own)
        self.tables = LedgerTables(uri, options, self.files.failure)
        self._state: LogState | None = None

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
        with self.tables.newest() as table:
            if table is None:
                return None
            found = tuple(LogFile(*file) for file in described_files(table))
            return View(table.version(), found, looked_at=time.monotonic())

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

    def _commit_by_delta_rs(
        self, view: View, actions: Sequence[AddAction | RemoveAction], app_id: str
    ) -> None:
        with self.tables.at_least(view.version) as table:
            try:
                known = [file.path for file in view.files]
                is_there = table is not None and table.version() == view.version
                if table is None or not (
                    is_there and self.tables.is_in_log(view.version, table, known)
                ):
                    raise CommitConflict(
                        f"{self._uri}: the ledger is no longer at version {view.version}"
                    )
                self.files.commit(table, actions, app_id)
            except delta_errors.CommitFailedError as error:
                raise CommitConflict(f"{self._uri}: another writer was first: {error}") from error
            except (delta_errors.DeltaError, OSError) as error:
                raise self.files.failure(error) from error
