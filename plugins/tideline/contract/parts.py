"""The parts that several answers share: ranges, findings, incidents, positions.

Every range is half-open: `end_offset` is exclusive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from tideline.model.offsets import CoordinateRange, Intervals
from tideline.model.plan import DamagedFile, RunStatus
from tideline.model.request import Lane
from tideline.model.status import IsoTime
from tideline.model.verdicts import FindingClass
from tideline.rules.audit import BucketFlaw, Flaw

CoordinateTuple = tuple[str, str, int, int, int, int]
"""Topic, topic id, generation, partition, start offset, end offset (exclusive)."""
_NOWHERE = object()
"""What no source has; None is a value."""


class Shape(BaseModel):
    """A JSON object of the contract; can be read from an object with attributes of those names."""

    # Built at first use: a process needs few of them.
    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        defer_build=True,
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def of(cls, *sources: object, **facts: Any) -> Self:
        """Build it: each field is a fact, else the attribute of the first source that has one.

        Facts are named after fields, not after their aliases. A field that nobody has takes its
        default; without one it is refused, so that a rename in the model turns a test red.
        """
        for name in cls.model_fields.keys() - facts:
            for source in sources:
                fact = getattr(source, name, _NOWHERE)
                if fact is not _NOWHERE:
                    facts[name] = fact
                    break
        return cls(**facts)

    def data(self) -> dict[str, Any]:
        """The object as plain dicts, lists, strings and numbers."""
        return self.model_dump(mode="json", by_alias=True)


@dataclass(frozen=True, slots=True)
class RangeWithRows(CoordinateRange):
    """A range of a run; `rows` is null until the range is verified."""

    rows: int | None


@dataclass(frozen=True, slots=True)
class DecodedRange(CoordinateRange):
    """Raw rows that were decoded: how many have a typed row, and how many are in quarantine."""

    rows: int
    typed: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class LostRows(CoordinateRange):
    """Rows that a rewind removes and Kafka can no longer give back."""

    rows: int
    reason: str


class TypedAudit(Shape):
    """The typed table and the quarantine, held against the raw rows; `pending` is no flaw.

    `rows` and `quarantined` count rows, `pending` landed offsets that are not decoded yet, and
    `dropped` raw rows in neither table, where tombstones are dropped, and `let_go` those that the
    quarantine has lost for their age.
    """

    rows: int
    quarantined: int
    pending: int
    dropped: int
    let_go: int
    missing: tuple[Flaw, ...]
    doubled: tuple[Flaw, ...]
    foreign: tuple[Flaw, ...]
    damaged: tuple[DamagedFile, ...]
    clean: bool


class Position(Shape):
    """The live lane's position in one partition; `next_offset` is the first not yet ingested.

    `followed` is false while the stream file does not mean the topic; the position stays.
    """

    topic: str
    topic_id: str
    generation: int
    partition: int
    next_offset: int
    leader_epoch: int | None
    seen_end: int | None
    followed: bool


class Headroom(Shape):
    """Time until retention reaches a next offset; negative when overdue, null if unknown."""

    topic: str
    partition: int
    next_offset: int
    written_at: IsoTime | None
    retention_ms: int | None
    seconds_left: float | None


class Notice(Shape):
    """Something worth telling that halts nothing."""

    kind: str
    topic: str
    partition: int | None
    text: str


class Finding(Shape):
    """One thing that does not fit what the ledger knows.

    `lost_start` and `lost_end` (exclusive) bound the offsets at stake; null where unknown.
    """

    kind: FindingClass = Field(serialization_alias="class")
    expected: str
    actual: str
    topic: str | None
    topic_id: str | None
    partition: int | None
    intervals: Intervals
    detail: str | None
    decidable: bool
    lost_from: IsoTime | None
    lost_until: IsoTime | None
    backfill: str | None
    cause: str
    lost_start: int | None
    lost_end: int | None
    offsets_at_stake: int | None
    next_step: str


class Identified(Shape):
    """Has an id, which stands first in its JSON."""

    id: str


class Incident(Finding, Identified):
    """A finding that halted a run, and the decision about it.

    `decision` and `closed_at` are null while nobody has decided and while it is open. `runbook`
    names a page of the docs, with its anchor.
    """

    run_id: str
    opened_at: IsoTime
    plan_id: str | None
    choices: tuple[str, ...]
    decision: str | None
    decided_by: str | None
    decided_at: IsoTime | None
    reason: str | None
    closed_at: IsoTime | None
    outcome: str | None
    removed_in_version: int | None
    runbook: str


class IncidentDetails(Incident):
    """An incident and what it touches in the table: unverified ranges, versions and their runs."""

    unverified: tuple[CoordinateTuple, ...] = Field(serialization_alias="doubtful")
    affected_versions: tuple[int, ...]
    affected_runs: tuple[str, ...]


class RunSummary(Shape):
    """A run as `tideline ledger` lists it; counts are null where there is no plan or no commit.

    `finishes` is the run whose plan this one has taken over: its offsets, rows and version stand
    there and count once. Null for a plan of its own.
    """

    run_id: str
    plan_id: str | None
    lane: Lane
    status: RunStatus
    offsets: int | None
    rows: int | None
    table_version: int | None
    finishes: str | None
    by: str | None
    ranges: tuple[RangeWithRows, ...]


class Rewind(Shape):
    """A rewind; `finished_at` is null while it is under way."""

    rewind_id: str
    to_run: str
    reason: str
    by: str
    begun_at: IsoTime
    finished_at: IsoTime | None
    removed_rows: int
    table_version: int | None
    undone_runs: tuple[str, ...]
    lost: tuple[LostRows, ...]


class CurrentAudit(Shape):
    """Rows by bucket, as the current table's log has them; `unfolded` offsets are no flaw.

    Of the buckets in `checked` all rows were read, and their changes folded once more.
    """

    rows: int
    deleted: int
    unfolded: int
    wrong: tuple[BucketFlaw, ...]
    checked: tuple[int, ...]
    clean: bool


class DriverStatus(Shape):
    """A warm Spark driver of this user; `bytes` is memory, that of its JVM included."""

    pid: int
    jobs: int
    idle_seconds: float
    bytes: int


class Problem(Shape):
    """One thing wrong in a stream file; `line` counts from 1."""

    file: str
    line: int
    key: str
    value: str
    allowed: str
