"""What became of the offsets of one partition, as bands that do not overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tideline.model.head import PartitionPosition
from tideline.model.headroom import Headroom
from tideline.model.offsets import OffsetRange, PartitionIdentity

BandKind = Literal["landed", "backfilled", "accepted_loss", "at_stake", "open", "unread", "gap"]
"""`at_stake`: an open incident is about them. `open`: in a frozen plan, and not verified yet.
`gap`: between verified offsets, and nobody has accounted for them."""


@dataclass(frozen=True, slots=True)
class Band:
    """Offsets that share a fate.

    Args:
        kind: Which.
        offsets: As a half-open range.
    """

    kind: BandKind
    offsets: OffsetRange


@dataclass(frozen=True, slots=True)
class LogBands:
    """All that is known of one log.

    Args:
        identity: Topic id, generation and partition.
        is_current: Whether the live lane reads this log.
        bands: By offset; they do not overlap. Between them, nothing was asked of the stream.
    """

    identity: PartitionIdentity
    is_current: bool
    bands: tuple[Band, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one partition stands: cheap, so that ten thousand can be sorted by it.

    Args:
        topic: Its name; None where the ledger no longer knows it.
        partition: Its number.
        position: The live lane's; None where it is no longer followed.
        log_start_offset: The oldest readable offset, as the brokers said last; None if unknown.
        end_offset: The end (exclusive) of what a run would read, as they said last, or as the last
            run saw it; None if unknown.
        headroom: When retention reaches the next offset; None if it was not measured.
        is_observed: Whether the brokers have said so of this very log, and not the last run.
        identities: All its logs, the current one last.
    """

    topic: str | None
    partition: int
    position: PartitionPosition | None
    log_start_offset: int | None
    end_offset: int | None
    headroom: Headroom | None
    is_observed: bool
    identities: tuple[PartitionIdentity, ...]

    @property
    def next_offset(self) -> int | None:
        """The first offset not yet ingested; None where it is no longer followed."""
        return None if self.position is None else self.position.next_offset

    @property
    def lag(self) -> int | None:
        """Offsets that are not read yet; None if unknown."""
        if self.position is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.position.next_offset)
