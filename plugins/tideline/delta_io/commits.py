"""Commits of a Delta table: one as it stands in the log, and how a table is created."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltalake import CommitProperties, DeltaTable
from deltalake.fs import DeltaStorageHandler

CREATED_ONCE = CommitProperties(max_commit_retries=0)
"""For `DeltaTable.create`: after another writer has created the table, delta-rs would create it
again, as version 1 with another id, and that would replace the other one's."""


def read_commit(
    table: DeltaTable, version: int, options: Mapping[str, str]
) -> tuple[dict[str, Any], ...] | None:
    """The actions of a commit, in the log's order; None if log cleanup has removed its file.

    Args:
        table: Says where the store is.
        version: The version that the commit made.
        options: delta-rs options of the object store.

    Raises:
        OSError: The store cannot be reached.
    """
    store = DeltaStorageHandler.from_table(table._table, dict(options))
    try:
        with store.open_input_file(f"_delta_log/{version:020d}.json") as file:
            text = file.read().decode()
    except FileNotFoundError:
        return None
    return tuple(json.loads(line) for line in text.splitlines() if line.strip())
