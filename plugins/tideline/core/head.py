"""The head: where the live lane goes on, per partition."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tideline.core.coverage import Coverage
from tideline.core.headroom import Headroom
from tideline.core.positions import PartitionPosition


@dataclass(frozen=True, slots=True)
class Head:
    """Everything that a live plan starts from; replaced as a whole, never edited.

    Args:
        cluster_id: The cluster that the positions belong to; None before the first look.
        start: The stream file's `start` as it was when the first positions were resolved.
        positions: One per followed partition.
        coverage: Verified offsets, live and backfill.
        table_id: The table that holds the rows; None before the first commit.
        table_version: Newest version known to hold only what the ledger knows.
        live_runs: How many live runs have advanced.
        bytes_per_record: Table bytes per landed row of the last run; None before the first.
        excused: Offsets without a row whose loss was accepted by a decision.
        retired: Positions of topics and partitions that are no longer followed.
        headroom: Where retention is nearest, as last measured; of at most 200 partitions.
    """

    cluster_id: str | None = None
    start: str | None = None
    positions: tuple[PartitionPosition, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    table_id: str | None = None
    table_version: int | None = None
    live_runs: int = 0
    bytes_per_record: float | None = None
    excused: tuple[Coverage, ...] = ()
    retired: tuple[PartitionPosition, ...] = ()
    headroom: tuple[Headroom, ...] = ()

    @property
    def digest(self) -> str:
        """A fingerprint of what decisions and runs move: a proposal made from others is stale."""
        moving = (self.cluster_id, self.positions, self.retired, self.excused)
        return hashlib.sha256(repr(moving).encode()).hexdigest()

    @property
    def topics(self) -> dict[str, list[PartitionPosition]]:
        """Positions by topic name, partitions in order."""
        grouped: dict[str, list[PartitionPosition]] = {}
        for position in sorted(self.positions, key=lambda p: (p.topic, p.partition)):
            grouped.setdefault(position.topic, []).append(position)
        return grouped
