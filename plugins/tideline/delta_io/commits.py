"""Commits of a Delta table: one as it stands in the log, and how a table is created."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltalake import CommitProperties, DeltaTable
from deltalake.fs import DeltaStorageHandler

from tideline.model.addresses import is_in_object_store

CREATED_ONCE = CommitProperties(max_commit_retries=0)
"""For `DeltaTable.create`: after another writer has created the table, delta-rs would create it
again, as version 1 with another id, and that would replace the other one's."""


def checkpoint_interval(uri: str) -> dict[str, str | None]:
    """The table property that says after how many commits Delta writes a checkpoint.

    delta-rs opens a table by reading each commit since the last one twice. In an object store each
    of these is a request, so checkpoints come sooner there.

    Args:
        uri: Address of the table.
    """
    return {"delta.checkpointInterval": "10" if is_in_object_store(uri) else "50"}


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
