"""Notices: what a run reports without halting, such as new partitions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to report.

    Args:
        kind: What it is about.
        topic: Topic name.
        partition: Partition number; None for the whole topic.
        text: A sentence for people.
    """

    kind: Literal[
        "new_topic",
        "new_partition",
        "topic_set_aside",
        "topic_taken_up",
        "open_transaction",
        "hanging_transaction",
        "expired",
        "planned_anew",
    ]
    topic: str
    partition: int | None
    text: str

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return f"{place}: {self.kind}: {self.text}"
