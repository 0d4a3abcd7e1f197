"""The data files of an attempt, as the manifest in its folder names them (ADR 28).

Spark's driver writes it when all tasks are done, with the files of those attempts of tasks that it
counts. Other files may lie in the folder, of tasks that failed or were too slow: they are no part
of anything, and go with the next vacuum.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyarrow.fs import PyFileSystem

from tideline.documents import load
from tideline.errors import VerificationFailed
from tideline.launch.job import SparkResult
from tideline.model.wording import first_few
from tideline.table.change import TableChange

_NAME = "_files.json"
"""As `ManifestCommitProtocol.java` calls it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the tasks of one write have committed.

    Args:
        files: Paths relative to the attempt's folder, with `/`, not URL-encoded.
    """

    files: tuple[str, ...]


def committed_files(
    store: PyFileSystem, change: TableChange, result: SparkResult
) -> tuple[str, ...]:
    """The data files of an attempt: paths relative to the table, not URL-encoded.

    Args:
        store: The table's.
        change: Says where the files lie.
        result: What Spark has reported; without rows, it may have written nothing.

    Raises:
        VerificationFailed: The manifest is missing, or names what is no data file of the attempt.
        UnreadableDocument: It is damaged, or a newer version of Tideline wrote it.
        OSError: The store cannot be reached.
    """
    path = f"{change.folder}/{_NAME}"
    try:
        with store.open_input_stream(path) as opened:
            manifest = load(Manifest, opened.read(), f"manifest {path}")
    except FileNotFoundError:
        if result.rows:
            raise _refused(change, f"manifest {path} is missing", result) from None
        return ()
    files = tuple(f"{change.folder}/{name}" for name in manifest.files)
    if other := [path for path in files if not _is_data(path)]:
        raise _refused(change, f"{first_few(other, 1)} is no data file by its name", result)
    return files


def _is_data(path: str) -> bool:
    """Delta's readers take nothing for data whose path has a part that begins with `_` or `.`."""
    hidden = any(part.startswith(("_", ".")) for part in path.split("/"))
    return path.endswith(".parquet") and not hidden


def _refused(change: TableChange, what: str, result: SparkResult) -> VerificationFailed:
    return VerificationFailed(
        f"{change.commit_id}: {what}: Spark reported {result.rows} rows; nothing was committed,"
        " clear the task or run again",
        commit_id=change.commit_id,
    )
