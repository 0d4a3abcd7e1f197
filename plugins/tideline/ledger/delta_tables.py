"""Table objects of delta-rs for one ledger, each lent to one caller at a time.

A table object is a table at one version, and whoever uses it may move it to a newer one. delta-rs
checks a commit for conflicts from the object's version on. So nobody may move the object between
a commit's own check and the commit: no two callers, and no two threads, ever hold the same one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake import exceptions as delta_errors

from tideline.errors import TidelineError
from tideline.store_io.pages import refuse_web_pages

_KEPT = 2  # the run's, and that of the thread that renews its lease


class LedgerTables:
    """Lends table objects. Opening one costs some ten times what moving it on does: they are kept.

    Args:
        uri: Address of the ledger's table.
        options: delta-rs options of the object store.
        failure: Makes the error for a store that fails.
    """

    def __init__(
        self, uri: str, options: Mapping[str, str], failure: Callable[[Exception], TidelineError]
    ) -> None:
        self._uri = uri
        self._options = dict(options)
        self._failure = failure
        self._idle: deque[DeltaTable] = deque(maxlen=_KEPT)  # its methods are atomic

    @contextmanager
    def newest(self) -> Iterator[DeltaTable | None]:
        """A table at its newest version; None where there is no table.

        Raises:
            ServiceAway: The store does not answer.
            StoreRefused: A web server answers in its place.
        """
        with self.at_least(None) as table:
            yield table

    @contextmanager
    def at_least(self, version: int | None) -> Iterator[DeltaTable | None]:
        """A table that is no older than a version; None where there is no table.

        Args:
            version: An object that has it is not moved and costs no request; None asks for the
                newest version.

        Raises:
            ServiceAway: The store does not answer.
            StoreRefused: A web server answers in its place.
        """
        table = self._take()
        try:
            if table is None:
                table = DeltaTable(self._uri, storage_options=self._options)
            elif version is None or table.version() < version:
                table.update_incremental()
        except delta_errors.TableNotFoundError:
            refuse_web_pages(self._uri, self._options)
            table = None
        except (delta_errors.DeltaError, OSError) as error:
            raise self._failure(error) from error
        yield table
        if table is not None:
            self.keep(table)  # not after an error: nobody knows what state it is in

    def keep(self, table: DeltaTable) -> None:
        """Lend a table object to others from now on; its holder must not use it any more."""
        self._idle.append(table)

    def _take(self) -> DeltaTable | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None
