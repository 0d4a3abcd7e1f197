"""Answers to a question at a glance: how a stream is doing, and what became of a record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

StreamState = Literal["never_run", "up_to_date", "behind", "waiting", "halted"]
"""`waiting`: a person has been asked. `halted`: an incident is open, and nobody was asked."""


Outcome = Literal[
    "landed",
    "no_row",
    "accepted_loss",
    "in_flight",
    "unread",
    "gap",
    "not_followed",
]


@dataclass(frozen=True, slots=True)
class Status:
    """A stream in a few numbers.

    Args:
        stream: Its name.
        state: What a person has to know first.
        partitions: Number of followed partitions.
        offset_lag: Offsets from the next ones to the logs' ends: now, or, where the brokers did
            not answer, as the last run saw them. None where nobody has seen an end.
        is_measured: Whether the brokers told the lag of every partition just now.
        problem: Why not, or why their answer is not to be relied on: silence, a topic that they
            refuse, that is gone or was created again, a log that lacks the next offset.
            None if there is nothing of that kind.
        oldest_unread_at: When the oldest unread record was written, as the last run measured it;
            None if nothing is unread, or it is unknown.
        headroom_seconds: Until retention may reach an unread record, the least of all partitions;
            below 0 if overdue, None if unknown.
        last_run: The live run that landed rows last; None if none has, or history forgot it.
        last_landed_version: Version of the table that it made.
        open_incidents: How many incidents are open, those of the decoding as well.
        undecoded: Landed offsets that are not decoded yet; None where nothing is decoded.
    """

    stream: str
    state: StreamState
    partitions: int
    offset_lag: int | None
    is_measured: bool
    problem: str | None
    oldest_unread_at: datetime | None
    headroom_seconds: float | None
    last_run: str | None
    last_landed_version: int | None
    open_incidents: int
    undecoded: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the ledger knows of one offset.

    Args:
        topic: Topic name.
        partition: Partition number.
        offset: The record's.
        outcome: `landed`: its row is in the table. `no_row`: a run has read past it, and the log
            explains why there is none. `accepted_loss`: a person has accepted that it is lost.
            `in_flight`: an open run is to read it. `unread`: at or above the next offset. `gap`:
            below it, and no run has verified it: audit the stream. `not_followed`: the ledger has
            no position of that partition.
        text: The outcome in a sentence.
        topic_id: The topic's UUID; None where the partition is not known.
        generation: Which filling of the partition the offset belongs to; None as above.
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
