"""The commits in the table's log: which plan or program made them, and what they did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from tideline.model.observation import LoggedCommit
from tideline.model.run import TableCommit
from tideline.table.schema import read_commit_metadata


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


def newer_commits(table: DeltaTable, known_version: int | None) -> tuple[LoggedCommit, ...]:
    """The commits after a version (exclusive), oldest first; as many as the log still has.

    Raises:
        NewerFormat: A newer version of Tideline made one of them.
    """
    count = 0 if known_version is None else table.version() - known_version
    if count <= 0:
        return ()
    commits = []
    for commit in table.history(count):
        metadata = read_commit_metadata(commit.get("userMetadata"), _where(table, commit))
        operation = str(commit.get("operation"))
        parameters = commit.get("operationParameters", {})
        commits.append(
            LoggedCommit(
                version=int(commit["version"]),
                operation=operation,
                appends=operation == "WRITE" and parameters.get("mode") == "Append",
                ledger_id=metadata["ledger_id"] if metadata is not None else None,
                detail=json.dumps(parameters, sort_keys=True)[:300],
            )
        )
    return tuple(reversed(commits))


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
