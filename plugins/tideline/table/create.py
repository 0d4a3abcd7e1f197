"""Create the table, and delete from its folder what an attempt has left.

Both use the table's store through delta-rs, so they work the same for every way of running Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlparse

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo, FileSelector, PyFileSystem

from tideline.delta_io.commits import CREATED_ONCE, checkpoint_interval
from tideline.errors import BadInput
from tideline.store_io.probe import refuse_unconditional_puts
from tideline.table.schema import (
    LEDGER_PROPERTY,
    STATISTICS_COLUMNS,
    STREAM_PROPERTY,
)

_SETTINGS = {
    "delta.dataSkippingNumIndexedCols": str(STATISTICS_COLUMNS),
    "delta.enableDeletionVectors": "false",
}


class TableFolder:
    """The folder of one table.

    Args:
        uri: Address of the table.
        options: delta-rs options of the object store.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = dict(options)
        address = urlparse(uri)
        self._local = Path(address.path) if address.scheme in ("", "file") else None

    def create(
        self, stream: str, ledger_id: str, partition_by: Sequence[str], schema: Schema
    ) -> None:
        """Create the table as version 0, without rows; an existing table is left as it is.

        Two attempts may do this at the same time. Both succeed, and one of them creates the table.

        Args:
            stream: Name of the stream; a table property.
            ledger_id: Id of the ledger; a table property.
            partition_by: Columns whose values split the data files into folders, in order.
            schema: The table's columns.

        Raises:
            BadInput: The folder holds files, and no Delta table.
            StoreRefused: The object store ignores conditional puts, or refuses us.
            ServiceAway: The object store does not answer.
            DeltaError: The commit was refused.
            OSError: The store cannot be reached.
        """
        others = sorted(e.base_name for e in self._entries("") if e.base_name != "_delta_log")
        if DeltaTable.is_deltatable(self._uri, self._options):
            return
        if others:
            raise BadInput(
                f"table {self._uri}: the folder is not empty and holds no Delta table:"
                f" it contains {others[0]}; give the stream another folder, or empty this one"
            )
        refuse_unconditional_puts(self._uri, self._options)
        try:
            DeltaTable.create(
                self._uri,
                schema,
                mode="ignore",
                partition_by=list(partition_by),
                configuration={
                    STREAM_PROPERTY: stream,
                    LEDGER_PROPERTY: ledger_id,
                    **_SETTINGS,
                    **checkpoint_interval(self._uri),
                },
                storage_options=self._options,
                commit_properties=CREATED_ONCE,
                raise_if_key_not_exists=False,  # Delta does not know Tideline's two properties
            )
        except DeltaError:
            if not DeltaTable.is_deltatable(self._uri, self._options):
                raise

    def discard(self, folder: str) -> None:
        """Delete a folder inside the table's; one that is not there is no error.

        Args:
            folder: Relative to the table's folder.

        Raises:
            OSError: The store cannot be reached.
        """
        if self._local is not None:
            shutil.rmtree(self._local / folder, ignore_errors=True)
        elif self._entries(folder):
            self._store().delete_dir(folder)

    def _entries(self, folder: str) -> list[FileInfo]:
        if self._local is not None and not (self._local / folder).is_dir():
            return []
        selector = FileSelector(folder, allow_not_found=True)
        return list(self._store().get_file_info(selector))

    def _store(self) -> PyFileSystem:
        return PyFileSystem(DeltaStorageHandler(self._uri, self._options))
