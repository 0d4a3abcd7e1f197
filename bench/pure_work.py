"""Rules on made-up facts: what detection and planning cost without a broker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tideline.model.head import Head, PartitionPosition
from tideline.model.observation import (
    Observation,
    PartitionObservation,
    TableObservation,
    TopicObservation,
)
from tideline.rules.planning import plan_ranges
from tideline.rules.reset_detection import find_resets

_TOPIC_ID = "11111111-1111-4111-8111-111111111111"


def detection(partitions: int) -> Callable[[], object]:
    """Compare a head of so many partitions with an observation; nothing is found."""
    known = _head(partitions)
    now = _observation(partitions, TableObservation(True, "t", 1, "orders", "l"))
    return lambda: find_resets(known, now, stream="orders", ledger_id="l")


def planning(partitions: int) -> Callable[[], object]:
    """Ranges out of an observation, without a question to the broker."""
    known = _head(partitions)
    now = _observation(partitions, TableObservation(exists=False))
    return lambda: plan_ranges(
        known,
        now,
        isolation_level="read_committed",
        max_records_per_run=10**6,
        max_records_per_partition=10**5,
    )


def _head(partitions: int) -> Head:
    """Next offset 5 in every partition."""
    positions = (PartitionPosition("orders", _TOPIC_ID, 0, p, 5, 3) for p in range(partitions))
    return Head(cluster_id="cluster", start="earliest", positions=tuple(positions))


def _observation(partitions: int, table: TableObservation) -> Observation:
    """Records in `[0, 10)` of every partition."""
    found = tuple(PartitionObservation(p, 3, 0, 10, 10, 10) for p in range(partitions))
    topic = TopicObservation("orders", _TOPIC_ID, found)
    return Observation(datetime.now(UTC), "cluster", (topic,), table)
