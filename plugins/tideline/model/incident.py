"""Notices, findings, incidents and decisions: what a run reports, why it halted, who decided what.

A finding is a difference that was seen. An incident is a finding that halted a run, and stays until
a run has executed a decision about it. The runbook has an entry for each class of findings and each
class of errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from tideline.errors import BadInput, StreamFileError, TidelineError
from tideline.model.offsets import CoordinateRange, Intervals, PlannedRange, TopicPartition, total
from tideline.model.places import Places
from tideline.model.verdicts import VERDICTS, FindingClass, valid_choices
from tideline.model.wording import first_few, how_many
from tideline.texts import one_line

_LONGEST = 4_000
"""Characters of what a finding says."""


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
        "untold_value",
    ]
    topic: str
    partition: int | None
    text: str

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return f"{place}: {self.kind}: {self.text}"


_INSTEAD: dict[FindingClass, FindingClass] = {
    "topic_missing": "topic_recreated",
    "topic_recreated": "topic_missing",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between the ledger and the cluster or the table.

    Args:
        kind: The class of the finding.
        expected: What the ledger knows.
        actual: What was observed.
        topic: Topic name; None for a finding about the cluster or the table.
        topic_id: UUID of the topic as the ledger knows it.
        partition: Partition number; None for a finding about the whole topic.
        intervals: The offsets at stake, as half-open ranges; empty if unknown.
        detail: A more exact cause than the class gives; None if there is none.
        decidable: Whether a decision other than `fail` can be executed.
        lost_from: The records at stake were written after this time; None if unknown.
        lost_until: The records at stake were written before this time; None if unknown.
        backfill: Id of the backfill plan, if the finding concerns only that plan; None if it
            concerns the live lane.
        remedy: A more exact next step than the class gives; None if there is none.
        table_version: Newest version of the table that the finding tells about: an approval covers
            no later one. None where it is about no version.
        ranges: Whose decoding has found it: a decision covers no other coordinates.
        names: What was counted there, rules or error classes; or what is wrong with schemas: a
            decision covers no others.
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
    remedy: str | None = None
    table_version: int | None = None
    ranges: tuple[CoordinateRange, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("expected", "actual", "detail"):  # a log, a table, a schema may tell it
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, one_line(text, _LONGEST))

    def is_found_again(self, later: Finding) -> bool:
        """Whether a later finding takes the place of this one: about other records none does."""
        mine, its = Places.of(self.ranges), Places.of(later.ranges)
        return self.kind == later.kind and bool(not mine or not its or mine & its)

    @property
    def cause(self) -> str:
        """What happened, in a sentence."""
        return self.detail or VERDICTS[self.kind].cause

    @property
    def next_step(self) -> str:
        """What a person can do."""
        if self.remedy is not None:
            return self.remedy
        if not self.decidable:
            return "give the stream a table and a ledger of its own, or restore what was there"
        return VERDICTS[self.kind].next_step

    @property
    def choices(self) -> tuple[str, ...]:
        """The valid decisions."""
        return valid_choices(self.kind, self.decidable)

    @property
    def executable(self) -> tuple[str, ...]:
        """The choices that a run can execute: all but `fail`."""
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
    def is_of_one_topic(self) -> bool:
        """Whether it concerns one topic or partition, so that the others may go on."""
        return self.topic is not None

    @property
    def place(self) -> str:
        """`topic-partition`, the topic, `table` or `cluster`."""
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
        text = f"{first_few(self.intervals)}: at most {how_many(total(self.intervals), 'record')}"
        if self.lost_from is not None or self.lost_until is not None:
            text += f", written{_when('after', self.lost_from)}{_when('before', self.lost_until)}"
        return text

    @property
    def shown(self) -> tuple[object, ...]:
        """What an approval of a changed table covers; with anything else it covers nothing."""
        return (self.detail, self.actual, self.table_version)

    @property
    def instead(self) -> Finding:
        """What may have been found before, of a topic id that is gone; else the finding itself."""
        return replace(self, kind=_INSTEAD.get(self.kind, self.kind))

    def is_beyond(self, known: Finding) -> bool:
        """Whether it is about more than an earlier one of that place: no decision covers it."""
        if self.kind != known.kind:
            return True
        if self.kind == "table_changed":
            return self.shown != known.shown
        if self.kind == "truncation":
            return (self.lost_start or 0) < (known.lost_start or 0)
        return self.kind in ("cluster_changed", "topic_recreated") and self.actual != known.actual

    @property
    def facts(self) -> str:
        """What was found, without what to do about it."""
        at_stake = f" Offsets at stake: {self.at_stake}." if self.intervals else ""
        return (
            f"{self.place}: {self.kind}: {self.cause}. Expected {self.expected}, found"
            f" {self.actual}.{at_stake}"
        )

    def __str__(self) -> str:
        return f"{self.facts} Next: {self.next_step}."


def _when(word: str, instant: datetime | None) -> str:
    return "" if instant is None else f" {word} {instant:%Y-%m-%dT%H:%M:%S}Z"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about an incident; it takes effect when a run executes it (R9).

    Args:
        choice: One of the finding's choices.
        by: Who decided: a user's name, or `policy`.
        at: When, UTC-aware.
        reason: In the words of the person who decided.
    """

    choice: str
    by: str
    at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UnverifiedRows:
    """Rows of one plan that an incident puts in doubt.

    Args:
        plan_id: The landed plan.
        plan_run_id: The run that froze it.
        ranges: The ranges of it that cannot be verified.
    """

    plan_id: str
    plan_run_id: str
    ranges: tuple[PlannedRange, ...]


@dataclass(frozen=True, slots=True)
class Incident:
    """A finding that halted a run, kept until a decision has been executed.

    Args:
        incident_id: Stable while the same difference lasts, for one topic id.
        run_id: The run that opened it.
        opened_at: When it was opened, UTC-aware.
        finding: What halted the run.
        plan_id: The landed plan that cannot be verified because of it, the newest if there are
            several; None if there is none.
        plan_run_id: The run that froze that plan.
        unverified: The ranges of that plan that cannot be verified.
        asked_in: The run whose form asks about it; None if no form does.
        decision: The newest decision; None while there is none.
        closed_at: When it was closed, UTC-aware; None while it is open.
        outcome: How it was closed, with the offsets that were lost; None while it is open.
        removed_in_version: Table version that removed its unverified rows (R6); None if none did.
        removing: Whether somebody has begun to remove them: nobody may count them by now.
        earlier: The same of earlier plans, which met the same finding; one entry per plan.
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
    removing: bool = False
    earlier: tuple[UnverifiedRows, ...] = ()

    @property
    def plans(self) -> tuple[UnverifiedRows, ...]:
        """Every plan with rows in doubt, the newest last."""
        if self.plan_id is None:
            return ()
        return (*self.earlier, UnverifiedRows(self.plan_id, str(self.plan_run_id), self.unverified))

    def of(self, *plans: UnverifiedRows) -> Incident:
        """The incident with the rows of these plans (the newest last) in doubt, and of no other."""
        if not plans:
            return replace(self, plan_id=None, plan_run_id=None, unverified=(), earlier=())
        *earlier, newest = plans
        return replace(
            self,
            plan_id=newest.plan_id,
            plan_run_id=newest.plan_run_id,
            unverified=newest.ranges,
            earlier=tuple(earlier),
        )

    def about(self, ranges: tuple[CoordinateRange, ...]) -> Incident:
        """The incident, about these of its records only: the others are decoded."""
        return replace(self, finding=replace(self.finding, ranges=ranges))

    def plans_but(self, plan_id: str) -> tuple[UnverifiedRows, ...]:
        """The plans with rows in doubt, but for one."""
        return tuple(p for p in self.plans if p.plan_id != plan_id)

    @property
    def key(self) -> tuple[object, ...]:
        """Two findings with the same key belong to one incident."""
        return incident_key(self.finding)

    @property
    def is_decided(self) -> bool:
        """Whether a decision waits to be executed."""
        return self.decision is not None and self.decision.choice in self.finding.executable

    def has_chosen(self, choice: str) -> bool:
        """Whether somebody has decided so."""
        return self.decision is not None and self.decision.choice == choice

    def closed(self, outcome: str, now: datetime, **changes: object) -> Incident:
        """The incident, closed with an outcome at `now` (UTC-aware)."""
        return replace(self, outcome=outcome, closed_at=now, **changes)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.incident_id}: {self.finding}"


def decided_incident(
    incidents: Iterable[Incident], kind: FindingClass, choice: str
) -> Incident | None:
    """The incident of that class about which that was decided; None if there is none."""
    return next((i for i in incidents if i.finding.kind == kind and i.has_chosen(choice)), None)


def incident_key(finding: Finding) -> tuple[object, ...]:
    """Two findings with the same key belong to one incident."""
    place = (finding.topic, finding.topic_id, finding.partition)
    return (finding.kind, *place, finding.backfill)


RUNBOOK = "docs/incidents-and-errors.md"
"""Page of the entries in a checkout. On the docs' site `docs/incidents-and-errors.md#x` is
`incidents-and-errors/#x`."""


def class_entry(kind: FindingClass) -> str:
    """Page and anchor of a class of findings."""
    return f"{RUNBOOK}#{kind}"


def error_entry(error: type[TidelineError]) -> str:
    """Page and anchor of a class of errors."""
    return f"{RUNBOOK}#{error.__name__.lower()}"


def entries_for(error: TidelineError) -> tuple[str, ...]:
    """Where to read on about an error: at its incidents' classes, otherwise at its own class."""
    incidents: Iterable[Incident] = error.facts.get("incidents", ())
    kinds = dict.fromkeys(incident.finding.kind for incident in incidents)
    return tuple(map(class_entry, kinds)) or (error_entry(type(error)),)


def with_entries(error: TidelineError) -> str:
    """The error's message, and a line that says where to read on if there is more to read."""
    if not has_entry(error):
        return error.message
    return f"{error.message}\nrunbook: {help_on(*entries_for(error))}"


def has_entry(error: TidelineError) -> bool:
    """Whether the runbook says more than the message; of a mistyped flag or key it does not."""
    return type(error) not in (BadInput, StreamFileError)


def help_on(*entries: str) -> str:
    """The command that prints entries of the runbook, also where no pages are installed."""
    return " ".join(("tideline help", *(entry.partition("#")[2] for entry in entries)))
