"""Findings and incidents: what halts a run, and what may be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

FindingClass = Literal[
    "passing",
    "retention_loss",
    "truncation",
    "topic_recreated",
    "topic_missing",
    "partition_missing",
    "cluster_changed",
    "log_hole",
    "unexplained_gap",
    "table_changed",
    "unknown",
]

CHOICES: dict[str, tuple[str, ...]] = {
    "retention_loss": ("fail", "approve", "accept_loss"),
    "truncation": ("fail", "approve", "accept_loss", "restart"),
    "topic_recreated": ("fail", "approve", "accept_loss", "restart"),
    "topic_missing": ("fail", "approve", "retire"),
    "partition_missing": ("fail", "approve", "retire"),
    "cluster_changed": ("fail", "approve", "restart"),
    "log_hole": ("fail", "approve", "accept_loss"),
    "unexplained_gap": ("fail", "approve", "accept_loss"),
    "table_changed": ("fail", "approve"),
    "unknown": ("fail", "approve"),
}
"""Which policies a stream file may name per class (R9)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not fit what the ledger knows.

    Args:
        kind: The class of the finding.
        topic: Topic name; None where the whole cluster or the table is meant.
        topic_id: The incarnation that the ledger knows.
        partition: Partition number; None where the whole topic is meant.
        lost_start: First offset at stake; None where unknown.
        lost_end: End of the offsets at stake (exclusive).
        cause: What happened, in a sentence.
        expected: What the ledger knows.
        actual: What is there now.
        next_step: What a person can do.
    """

    kind: FindingClass
    cause: str
    expected: str
    actual: str
    next_step: str
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    lost_start: int | None = None
    lost_end: int | None = None

    @property
    def place(self) -> str:
        """`topic-partition`, the topic, or the part of the stream that is meant."""
        if self.topic is None:
            return "table" if self.kind == "table_changed" else "cluster"
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        at_stake = ""
        if self.lost_start is not None and self.lost_end is not None:
            at_stake = f" Offsets at stake: [{self.lost_start}, {self.lost_end})."
        return (
            f"{self.place}: {self.kind}: {self.cause}. Expected {self.expected}, found"
            f" {self.actual}.{at_stake} Next: {self.next_step}."
        )


@dataclass(frozen=True, slots=True)
class Incident:
    """A finding that halted a run, kept until somebody decides.

    Args:
        incident_id: Stable for the same finding of the same incarnation.
        run_id: The run that found it first.
        decision: What was decided; None while it is open.
    """

    incident_id: str
    run_id: str
    opened_at: datetime
    finding: Finding
    decision: str | None = None
