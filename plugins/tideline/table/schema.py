"""The table's columns, and the marks that tie its rows to plans. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tideline.model.plan import PlannedRange

COLUMNS = {
    "topic_id": "STRING",
    "generation": "INT",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp_type": "INT",
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "plan_id": "STRING",
}
"""Name and SQL type; coordinates first, so that they carry file statistics."""

STATISTICS_COLUMNS = 6
"""So many columns carry file statistics, those not counted that the table is partitioned by."""
STAGING = "_tideline_staging"
"""Folder beside the data where a replay's rows wait; Delta ignores names that begin so."""

STREAM_PROPERTY = "tideline.stream"
LEDGER_PROPERTY = "tideline.ledger_id"


def landing_folder(plan_id: str, token: int) -> str:
    """Where an attempt writes its data files, under the table: no other attempt's are there."""
    return f"landed-{plan_id}-{token}"


def commit_metadata(
    *,
    ledger_id: str,
    plan_id: str,
    run_id: str,
    token: int,
    ranges: Iterable[PlannedRange],
    **counts: int,
) -> str:
    """User metadata of a commit, so that the table alone proves what it holds.

    Args:
        ledger_id: Whose plan it is.
        plan_id: The plan.
        run_id: The run that executes it.
        token: The attempt's fencing token.
        ranges: What was replaced.
        counts: `rows` and `bytes`, where the commit has no metrics of Spark's.
    """
    return json.dumps(
        {
            "tideline": 1,
            "ledger_id": ledger_id,
            "plan_id": plan_id,
            "run_id": run_id,
            "token": token,
            "ranges": [
                [r.topic_id, r.generation, r.partition, r.start_offset, r.end_offset]
                for r in ranges
            ],
            **counts,
        },
        separators=(",", ":"),
    )


def read_commit_metadata(user_metadata: str | None) -> dict[str, Any] | None:
    """What `commit_metadata` wrote; None for a commit of somebody else."""
    if not user_metadata:
        return None
    try:
        mark = json.loads(user_metadata)
    except ValueError:
        return None
    return mark if isinstance(mark, dict) and mark.get("tideline") == 1 else None
