"""The table's folder where Spark's own commits do not reach: before a table, and beside it.

Through the table's store as delta-rs knows it, so it is the same for every way of running Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlparse

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo, FileSelector, FileType, PyFileSystem

from tideline.core.table import STAGING
from tideline.errors import BadInput

_LOG, _STAGED_COMMITS = "_delta_log", "_staged_commits"


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

    def clear_for_creation(self) -> None:
        """Remove what a creation that was cut off has left: drafts of a first commit.

        Spark takes a folder that is not empty for a table, and its next write would create one
        without our marks. No commit and no folder with anything in it is removed: an attempt that
        was stopped here and goes on after its successor has created the table finds nothing.

        Raises:
            BadInput: The folder holds something else.
            OSError: The store cannot be reached.
        """
        drafts = self._entries(_LOG)
        if any(not _is_draft(entry) for entry in drafts):
            return  # it was created since
        for entry in drafts:
            if entry.type == FileType.File:
                self._store().delete_file(entry.path)
        for folder in (f"{_LOG}/{_STAGED_COMMITS}", _LOG):
            self._remove_empty(folder)
        others = sorted(e.base_name for e in self._entries("") if e.base_name != _LOG)
        if others and not self._entries(_LOG):
            raise BadInput(
                f"table.uri {self._uri}: the folder is not empty and holds no Delta table:"
                f" {others[0]} is there; give the stream another folder, or empty this one if"
                " nobody needs it"
            )

    def remove_staging(self, token: int) -> None:
        """Remove what an attempt and older ones have staged; never a newer one's rows.

        Args:
            token: That of the attempt.

        Raises:
            OSError: The store cannot be reached.
        """
        for entry in self._entries(STAGING):
            number = entry.base_name.rpartition("-")[2]
            if not number.isdecimal() or int(number) <= token:
                self._store().delete_dir(entry.path)
                self._remove_empty(entry.path)

    def _entries(self, folder: str) -> list[FileInfo]:
        if self._local is not None and not (self._local / folder).is_dir():
            return []
        selector = FileSelector(folder, allow_not_found=True)
        return list(self._store().get_file_info(selector))

    def _store(self) -> PyFileSystem:
        return PyFileSystem(DeltaStorageHandler(self._uri, self._options))

    def _remove_empty(self, folder: str) -> None:
        """An object store has no empty folders; elsewhere one that is not empty stays."""
        if self._local is None:
            return
        try:
            (self._local / folder).rmdir()
        except OSError:
            return


def _is_draft(entry: FileInfo) -> bool:
    name: str = entry.base_name
    return name == _STAGED_COMMITS or name.startswith(".")
