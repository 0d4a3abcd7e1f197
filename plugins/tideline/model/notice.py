"""What a run tells without halting: new topics and partitions, open transactions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing worth telling."""

    kind: Literal[
        "new_topic", "new_partition", "open_transaction", "hanging_transaction", "expired"
    ]
    topic: str
    partition: int | None
    text: str

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return f"{place}: {self.kind}: {self.text}"
