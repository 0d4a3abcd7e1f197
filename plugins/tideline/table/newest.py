"""One table at its newest version, in an object that is moved on instead of opened anew.

Opening reads the last checkpoint and every commit since, twice. Moving on lists what is newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable
from deltalake import exceptions as delta_errors

from tideline.delta_io.commits import read_commit
from tideline.store_io.pages import refuse_web_pages


class NewestTable:
    """Not for threads to share. Whoever gets the table object uses it before the next call.

    Args:
        uri: Address of the table.
        options: delta-rs options of the object store.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = dict(options)
        self._table: DeltaTable | None = None
        self._newest_commit: tuple[dict[str, Any], ...] | None = None
        self._tokens: dict[str, int | None] = {}  # at the version of `_table`

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
        if table is not None and self._is_as_read(table):
            known = table.version()
            table.update_incremental()
            if table.version() == known:
                self._table = table
                return table
        else:
            table = self._opened(None)
        self._tokens.clear()
        if table is not None:
            self._newest_commit = self._commit_of(table)
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
        return self._opened(version)

    def token(self, table: DeltaTable, app_id: str) -> int | None:
        """Delta's transaction version of an application, as `table` has it.

        delta-rs reads every commit since the last checkpoint for it.

        Args:
            table: What `newest` gave last.
            app_id: The application.

        Raises:
            DeltaError: The table cannot be read.
            OSError: The store cannot be reached.
        """
        if app_id not in self._tokens:
            self._tokens[app_id] = table.transaction_version(app_id)
        return self._tokens[app_id]

    def _opened(self, version: int | None) -> DeltaTable | None:
        try:
            return DeltaTable(self._uri, version=version, storage_options=self._options)
        except delta_errors.TableNotFoundError:
            refuse_web_pages(self._uri, self._options)
            return None

    def _is_as_read(self, table: DeltaTable) -> bool:
        return self._newest_commit is not None and self._commit_of(table) == self._newest_commit

    def _commit_of(self, table: DeltaTable) -> tuple[dict[str, Any], ...] | None:
        return read_commit(table, table.version(), self._options)
