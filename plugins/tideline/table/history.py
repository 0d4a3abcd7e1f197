"""What the table's commits say of themselves: whose they are, and what they did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from tideline.model.observation import LoggedCommit
from tideline.model.run import TableCommit
from tideline.table.schema import read_commit_metadata


def find_commit(table: DeltaTable, plan_id: str, after_version: int | None) -> TableCommit | None:
    """The newest commit with the plan's mark, among those after a version."""
    count = table.version() - (-1 if after_version is None else after_version)
    if count <= 0:
        return None
    for commit in table.history(count):
        mark = read_commit_metadata(commit.get("userMetadata"))
        if mark is not None and mark["plan_id"] == plan_id:
            return _landing(str(table.metadata().id), commit, mark)
    return None


def newer_commits(table: DeltaTable, known_version: int | None) -> tuple[LoggedCommit, ...]:
    """Commits after a version, oldest first; as many as the log still has."""
    count = 0 if known_version is None else table.version() - known_version
    if count <= 0:
        return ()
    found = []
    for commit in table.history(count):
        mark = read_commit_metadata(commit.get("userMetadata"))
        operation = str(commit.get("operation"))
        parameters = commit.get("operationParameters", {})
        found.append(
            LoggedCommit(
                version=int(commit["version"]),
                operation=operation,
                appends=operation == "WRITE" and parameters.get("mode") == "Append",
                ledger_id=mark["ledger_id"] if mark is not None else None,
                detail=json.dumps(parameters, sort_keys=True)[:300],
            )
        )
    return tuple(reversed(found))


def _landing(table_id: str, commit: Mapping[str, Any], mark: Mapping[str, Any]) -> TableCommit:
    """By the mark of a commit of our own, by the metrics of one of Spark's."""
    metrics = commit.get("operationMetrics", {})
    rows = int(metrics.get("numOutputRows", 0)) - int(metrics.get("numCopiedRows", 0))
    return TableCommit(
        table_id=table_id,
        version=int(commit["version"]),
        token=int(mark["token"]),
        rows=int(mark.get("rows", rows)),
        bytes=int(mark.get("bytes", metrics.get("numOutputBytes", 0))),
    )
