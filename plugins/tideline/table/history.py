"""The commits in the table's log: which plan or program made them, and what they did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from deltalake import DeltaTable

from tideline.delta_io.commits import read_commit
from tideline.model.observation import LoggedCommit
from tideline.model.run import TableCommit
from tideline.table.schema import LEDGER_PROPERTY, read_commit_metadata


def find_commit(table: DeltaTable, plan_id: str, after_version: int | None) -> TableCommit | None:
    """The newest commit of a plan, among those after a version (exclusive).

    Raises:
        NewerFormat: A newer version of Tideline made one of them.
    """
    count = table.version() - (-1 if after_version is None else after_version)
    if count <= 0:
        return None
    for commit in table.history(count):
        metadata = read_commit_metadata(commit.get("userMetadata"), _where(table, commit))
        if metadata is not None and metadata["plan_id"] == plan_id:
            return _table_commit(str(table.metadata().id), commit, metadata)
    return None


def newer_commits(
    table: DeltaTable, known_version: int | None, options: Mapping[str, str]
) -> tuple[LoggedCommit, ...]:
    """The commits after a version (exclusive), oldest first; as many as the log still has.

    What a commit of another program did is read from its actions, one small file each: the name of
    an operation says what somebody wanted, and there are new names in every release.

    Args:
        table: At its newest version.
        known_version: The version; None lists nothing.
        options: delta-rs options of the object store.

    Raises:
        NewerFormat: A newer version of Tideline made one of them.
        OSError: The store cannot be reached.
    """
    count = 0 if known_version is None else table.version() - known_version
    if count <= 0:
        return ()
    ledger_of_table = table.metadata().configuration.get(LEDGER_PROPERTY)
    commits = []
    for commit in table.history(count):
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
                removes_rows=not is_ours
                and removes_rows(operation, read_commit(table, version, options)),
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
    """Rows and bytes are in the metadata of our own commits, in the metrics of Spark's commits."""
    metrics = commit.get("operationMetrics", {})
    rows = int(metrics.get("numOutputRows", 0)) - int(metrics.get("numCopiedRows", 0))
    return TableCommit(
        table_id=table_id,
        version=int(commit["version"]),
        token=int(metadata["token"]),
        rows=int(metadata.get("rows", rows)),
        bytes=int(metadata.get("bytes", metrics.get("numOutputBytes", 0))),
    )
