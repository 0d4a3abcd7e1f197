"""The table's columns and properties, and the metadata of its commits. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tideline.errors import NewerFormat
from tideline.model.offsets import CoordinateRange

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
"""Name and SQL type. The coordinates come first, so that they have file statistics."""

STATISTICS_COLUMNS = 6
"""How many columns have file statistics; partition columns do not count."""

COMMIT_FORMAT = 1
"""Format of `commit_metadata`, its value of "tideline"; counted apart from stored documents."""

STREAM_PROPERTY = "tideline.stream"
LEDGER_PROPERTY = "tideline.ledger_id"


def app_id(ledger_id: str) -> str:
    """Delta application id of all attempts of one ledger."""
    return f"tideline:{ledger_id}"


def commit_metadata(
    *,
    ledger_id: str,
    plan_id: str,
    run_id: str,
    token: int,
    ranges: Iterable[CoordinateRange],
    **counts: int,
) -> str:
    """The user metadata of a commit. With it, the table alone proves which plans it holds.

    Args:
        ledger_id: The ledger that holds the plan.
        plan_id: The plan.
        run_id: The run that executes it.
        token: The attempt's fencing token.
        ranges: The coordinates that were written or replaced.
        counts: `rows` and `bytes`, for a commit without Spark's metrics.

    Returns:
        JSON; each range is `[topic_id, generation, partition, start_offset, end_offset]`.
    """
    return json.dumps(
        {
            "tideline": COMMIT_FORMAT,
            "ledger_id": ledger_id,
            "plan_id": plan_id,
            "run_id": run_id,
            "token": token,
            "ranges": [r.coordinates for r in ranges],
            **counts,
        },
        separators=(",", ":"),
    )


def read_commit_metadata(user_metadata: str | None, where: str) -> dict[str, Any] | None:
    """What `commit_metadata` wrote, as a dict; None for a commit of another program.

    Args:
        user_metadata: The commit's user metadata.
        where: Table and version, for messages.

    Raises:
        NewerFormat: A newer version of Tideline made it; it must not pass for a foreign commit.
    """
    if not user_metadata:
        return None
    try:
        metadata = json.loads(user_metadata)
    except ValueError:
        return None
    number = metadata.get("tideline") if isinstance(metadata, dict) else None
    if type(number) is not int or number < 1:  # the ledger's own table says "ledger" there
        return None
    if number > COMMIT_FORMAT:
        raise NewerFormat(
            f"{where}: commit metadata has format {number}; this version of Tideline reads formats"
            f" up to {COMMIT_FORMAT}: upgrade Tideline here; nothing was changed",
            format=number,
            supported=COMMIT_FORMAT,
        )
    return dict(metadata)
