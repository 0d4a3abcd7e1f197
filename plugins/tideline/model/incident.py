"""Findings, incidents and decisions: what halts a run, and who answered it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tideline.model.coverage import Intervals, total
from tideline.model.offsets import OffsetRange, TopicPartition
from tideline.model.plan import PlannedRange
from tideline.model.verdicts import VERDICTS, FindingClass, valid_choices


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not fit what the ledger knows.

    Args:
        kind: The class of the finding.
        expected: What the ledger knows.
        actual: What is there now.
        topic: Topic name; None where the whole cluster or the table is meant.
        topic_id: The incarnation that the ledger knows.
        partition: Partition number; None where the whole topic is meant.
        intervals: The offsets at stake, as far as they are known.
        detail: A more exact cause than the class has.
        decidable: Whether a decision other than `fail` can be executed.
        backfill: Plan of the backfill that alone it concerns; None for what stops the live lane.
        lost_from, lost_until: The times between which the records at stake were written.
    """

    kind: FindingClass
    expected: str
    actual: str
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    intervals: Intervals = ()
    detail: str | None = None
    decidable: bool = True
    lost_from: datetime | None = None
    lost_until: datetime | None = None
    backfill: str | None = None

    @property
    def cause(self) -> str:
        """What happened, in a sentence."""
        return self.detail or VERDICTS[self.kind].cause

    @property
    def next_step(self) -> str:
        """What a person can do."""
        if not self.decidable:
            return "give the stream a table and a ledger of its own, or restore what was there"
        return VERDICTS[self.kind].next_step

    @property
    def choices(self) -> tuple[str, ...]:
        """What may be decided about it."""
        return valid_choices(self.kind, self.decidable)

    @property
    def executable(self) -> tuple[str, ...]:
        """The choices that a run can carry out."""
        return tuple(choice for choice in self.choices if choice != "fail")

    @property
    def lost_start(self) -> int | None:
        """First offset at stake; None where unknown."""
        return self.intervals[0].start_offset if self.intervals else None

    @property
    def lost_end(self) -> int | None:
        """End of the offsets at stake (exclusive); None where unknown."""
        return self.intervals[-1].end_offset if self.intervals else None

    @property
    def offsets_at_stake(self) -> int | None:
        """How many offsets are at stake: an upper bound of the records."""
        return total(self.intervals) if self.intervals else None

    @property
    def is_narrow(self) -> bool:
        """Whether it concerns a topic or partition, so that others may go on."""
        return self.topic is not None

    @property
    def place(self) -> str:
        """`topic-partition`, the topic, or the part of the stream that is meant."""
        if self.topic is None:
            return "table" if self.kind == "table_changed" else "cluster"
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def concerns(self, at: TopicPartition) -> bool:
        """Whether a partition lies in the finding's scope."""
        return self.topic in (None, at.topic) and self.partition in (None, at.partition)

    @property
    def at_stake(self) -> str:
        """Offsets, at most how many records, and when they were written; empty where unknown."""
        if not self.intervals:
            return ""
        shown = ", ".join(str(r) for r in self.intervals[:5])
        more = f" and {len(self.intervals) - 5} more" if len(self.intervals) > 5 else ""
        text = f"{shown}{more}: at most {self.offsets_at_stake} records"
        if self.lost_from is not None or self.lost_until is not None:
            text += f", written{_when('after', self.lost_from)}{_when('before', self.lost_until)}"
        return text

    def __str__(self) -> str:
        at_stake = f" Offsets at stake: {self.at_stake}." if self.intervals else ""
        return (
            f"{self.place}: {self.kind}: {self.cause}. Expected {self.expected}, found"
            f" {self.actual}.{at_stake} Next: {self.next_step}."
        )


def _when(word: str, instant: datetime | None) -> str:
    return "" if instant is None else f" {word} {instant:%Y-%m-%dT%H:%M:%S}Z"


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer to an incident; it takes effect when a run executes it (R9).

    Args:
        choice: One of the finding's choices.
        by: Who or what decided: a user, or `policy`.
        reason: In their words.
    """

    choice: str
    by: str
    at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """A finding that halted a run, kept until a decision has been executed.

    Args:
        incident_id: Stable for the same finding of the same incarnation.
        run_id: The run that found it first.
        plan_id, plan_run_id: The landed plan that it puts in doubt, and the run that froze it.
        unverified: The plan's ranges that it keeps from being verified.
        asked_in: The run whose form asks about it.
        decision: What was decided last; None while nobody has.
        closed_at: When it was closed; None while it is open.
        outcome: How it was closed, with what was really lost.
        removed_in_version: Table version that removed its unverified rows (R6).
    """

    incident_id: str
    run_id: str
    opened_at: datetime
    finding: Finding
    plan_id: str | None = None
    plan_run_id: str | None = None
    unverified: tuple[PlannedRange, ...] = ()
    asked_in: str | None = None
    decision: Decision | None = None
    closed_at: datetime | None = None
    outcome: str | None = None
    removed_in_version: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two findings the same incident."""
        return incident_key(self.finding)

    @property
    def is_decided(self) -> bool:
        """Whether a decision waits to be executed."""
        return self.decision is not None and self.decision.choice in self.finding.executable

    def closed(self, outcome: str, now: datetime, **changes: object) -> Incident:
        """The incident at its end."""
        return replace(self, outcome=outcome, closed_at=now, **changes)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.incident_id}: {self.finding}"


def incident_key(finding: Finding) -> tuple[object, ...]:
    """What makes two findings the same incident."""
    place = (finding.topic, finding.topic_id, finding.partition)
    return (finding.kind, *place, finding.backfill)


def one_interval(start_offset: int, end_offset: int) -> Intervals:
    """The offsets `[start_offset, end_offset)` as intervals; none if there are none."""
    return (OffsetRange(start_offset, end_offset),) if end_offset > start_offset else ()
