"""Answers to whoever looks: how a stream is doing, what became of a record, what a run would read.

Nothing of this is stored: it is made of head, observation and history when somebody asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import PlainSerializer, WithJsonSchema

from tideline.model.catalog import CatalogFinding
from tideline.model.head import Headroom, PartitionPosition
from tideline.model.incident import Finding, Incident, Notice
from tideline.model.maintenance import TableRole
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.plan import BatchProposal
from tideline.model.timings import RunSeconds

IsoTime = Annotated[
    datetime,
    PlainSerializer(datetime.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time with its offset from UTC as digits (`+00:00`)."""
StreamState = Literal["never_run", "up_to_date", "behind", "decided", "waiting", "halted"]
"""`decided`: an incident is decided and waits for a run. `waiting`: a person has been asked.
`halted`: an incident is open, and nobody was asked."""
Outcome = Literal[
    "landed",
    "no_row",
    "accepted_loss",
    "erased",
    "at_stake",
    "in_flight",
    "unread",
    "deleted",
    "gap",
    "not_followed",
]
BandKind = Literal["landed", "backfilled", "accepted_loss", "at_stake", "open", "unread", "gap"]
"""`at_stake`: an open incident is about them. `open`: in a frozen plan, and not verified yet.
`gap`: between verified offsets, and nobody has accounted for them."""


@dataclass(frozen=True, slots=True)
class CurrentStatus:
    """The current table in a few numbers, as its last fold has left it.

    Args:
        rows: Of keys that are there.
        deleted: Rows of keys that are gone.
        buckets: Into how many parts the keys are spread.
        unfolded: Decoded offsets whose changes are not in it yet, or are others by now.
        folded_at: When the last fold was closed, UTC-aware.
        unproven_since: When a loss of records was accepted before that fold, UTC-aware: a delete
            among them never comes. None for none.
    """

    rows: int
    deleted: int
    buckets: int
    unfolded: int
    folded_at: IsoTime | None
    unproven_since: IsoTime | None


@dataclass(frozen=True, slots=True)
class ErasureUnderWay:
    """An erasure by key that is not done: a file may still hold a record of the key.

    Args:
        due_at: When the last file that may hold one goes.
        overdue: Whether it was cut off, or files should be gone by now.
    """

    erasure_id: str
    status: Literal["begun", "removed"]
    due_at: IsoTime
    overdue: bool


@dataclass(frozen=True, slots=True)
class TableNameStatus:
    """A name in a catalog, when it was looked at.

    Args:
        role: Of which table.
        uri: Where the table is.
        looked_at: When the catalog was asked, UTC-aware.
        finding: Why the name does not stand for the table; None where it does.
            `catalog_elsewhere`: it points to another location. `catalog_not_ours`: it is a view, a
            managed table, or of another format. `catalog_missing_schema`: there is no such schema.
            `catalog_away`: the catalog did not answer, or not well.
        text: A sentence for people; empty without a finding.
    """

    role: TableRole
    name: str
    uri: str
    looked_at: IsoTime
    finding: CatalogFinding | None
    text: str


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """A stream in a few numbers.

    Args:
        state: What a person has to know first.
        offset_lag: Offsets from the next ones to the logs' ends: now, or, where the brokers did
            not answer, as the last run saw them. None where nobody has seen an end.
        is_measured: Whether the brokers told the lag of every partition just now.
        problem: Why they did not, or why their answer is not to be relied on: silence, a topic that
            they refuse, that is gone or was created again, a log that lacks the next offset.
            None if there is nothing of that kind.
        oldest_unread_at: When the oldest unread record was written, as the last run measured it;
            None if nothing is unread, or it is unknown.
        headroom_seconds: Until retention may reach an unread record, the least of all partitions;
            0 if it has deleted one, below 0 if overdue, None if unknown.
        headroom_estimated: Whether no run has measured it, but whoever looks now.
        last_run: The live run that landed rows last; None if none has, or history forgot it.
        last_landed_version: Version of the table that it made.
        open_incidents: How many incidents are open, those of the decoding as well.
        undecoded: Landed offsets that are not decoded yet; None without typed tables.
        in_quarantine: Rows of the quarantine, when something was last done to it; None without
            typed tables, and if unknown.
        expectations: Rows that failed each one in the newest decoding.
        names: What a catalog has said of the stream's tables; empty without a catalog.
        current: None where nothing was ever folded.
        run_seconds: Of the live run that closed a plan last; None before the first.
        erasures: Those by key that are under way.
        untold: Those of which a table has told the coordinates only: they are not settled before
            their keys are erased once more.
    """

    stream: str
    state: StreamState
    partitions: int
    offset_lag: int | None
    is_measured: bool
    problem: str | None
    oldest_unread_at: IsoTime | None
    headroom_seconds: float | None
    headroom_estimated: bool
    last_run: str | None
    last_landed_version: int | None
    open_incidents: int
    undecoded: int | None
    in_quarantine: int | None
    expectations: dict[str, int]
    names: tuple[TableNameStatus, ...]
    current: CurrentStatus | None
    run_seconds: RunSeconds | None
    erasures: tuple[ErasureUnderWay, ...] = ()
    untold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the ledger knows of one offset.

    Args:
        outcome: `landed`: its row is in the table. `no_row`: a run has read past it, and the log
            explains why there is none. `accepted_loss`: a person has accepted that it is lost.
            `erased`: it was erased by key, and no run reads it again.
            `at_stake`: an open incident is about it, decided or not. `in_flight`: an open run is
            to read it. `unread`: at or above the next offset. `deleted`: no run has read it, and
            the log starts above it by now. `gap`: below the next offset, and no run has verified
            it: audit the stream. `not_followed`: nobody reads that partition.
        generation: Which filling of the partition the offset belongs to; None where the partition
            is not known.
        next_offset: The first offset not yet ingested; None as above.
        run_id: The run that landed it, or is to; None if there is none, or the ledger's
            history no longer names it.
        table_version: Version of the table that its commit made; None as above.
        decoded: Whether its row is decoded; None where nothing is decoded.
    """

    topic: str
    partition: int
    offset: int
    outcome: Outcome
    text: str
    topic_id: str | None = None
    generation: int | None = None
    next_offset: int | None = None
    run_id: str | None = None
    table_version: int | None = None
    decoded: bool | None = None

    @property
    def place(self) -> str:
        """Topic, partition and offset in one word."""
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Band:
    """Offsets that share a fate."""

    kind: BandKind
    offsets: OffsetRange


@dataclass(frozen=True, slots=True)
class LogBands:
    """All that is known of one log.

    Args:
        is_current: Whether the live lane reads this log.
        bands: By offset; they do not overlap. Between them, nothing was asked of the stream.
    """

    identity: PartitionIdentity
    is_current: bool
    bands: tuple[Band, ...]


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """Where one partition stands: cheap, so that ten thousand can be sorted by it.

    Args:
        topic: Its name; None where the ledger no longer knows it.
        position: The live lane's; None where it is no longer followed.
        log_start_offset: The oldest readable offset, as the brokers said last; None if unknown.
        end_offset: The end (exclusive) of what a run would read, as they said last, or as the last
            run saw it; None if unknown.
        headroom: When retention reaches the next offset; None if it was not measured.
        is_expired: Whether the log starts above offsets that nobody has read.
        is_observed: Whether the brokers have said so of this very log, and not the last run.
        identities: All its logs, the current one last.
    """

    topic: str | None
    partition: int
    position: PartitionPosition | None
    log_start_offset: int | None
    end_offset: int | None
    headroom: Headroom | None
    is_expired: bool
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

    def seconds_left(self, now: datetime) -> float | None:
        """Seconds from `now` (UTC-aware) until retention reaches what is unread; None if unknown.

        0 where it has: what is measured above that tells nothing of what is gone.
        """
        if self.is_expired:
            return 0.0
        return None if self.headroom is None else self.headroom.seconds_left(now)


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run would read now, and what speaks against it.

    Args:
        incidents: Those that are open; a finding that is new has none yet.
        halts: Whether a run would halt until somebody decides.
    """

    proposal: BatchProposal
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]
    halts: bool
    notices: tuple[Notice, ...]
    headroom: tuple[Headroom, ...]
