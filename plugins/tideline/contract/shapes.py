"""The parts that several answers share: ranges, findings, incidents, positions.

Every range is half-open: `end_offset` is exclusive.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from tideline.model.catalog import CatalogFinding
from tideline.model.maintenance import FileCount, RowCount, TableRole, TableSize
from tideline.model.plan import RunStatus
from tideline.model.request import Lane
from tideline.model.status import StreamState
from tideline.model.verdicts import FindingClass

IsoTime = Annotated[
    datetime,
    PlainSerializer(datetime.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time with its offset from UTC as digits (`+00:00`)."""

Role = Annotated[
    TableRole, Field(pattern=r"^(raw|quarantine|current|decoded(:[a-z][a-z0-9_]{0,62})?)$")
]
"""Which of a stream's tables; `decoded:TYPE` where several event types have one each."""
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


class Offsets(Shape):
    """Offsets `[start_offset, end_offset)`."""

    start_offset: int
    end_offset: int


class Identity(Shape):
    """The log that offsets belong to."""

    topic_id: str
    generation: int
    partition: int


class Coordinates(Shape):
    """Offsets `[start_offset, end_offset)` of one partition of one incarnation of a topic."""

    topic: str
    topic_id: str
    generation: int
    partition: int
    start_offset: int
    end_offset: int


class RangeWithRows(Coordinates):
    """A range of a run; `rows` is null until the range is verified."""

    rows: int | None


class ReadRange(Coordinates):
    """A range that was read, and the leader epoch that it was planned with."""

    leader_epoch: int | None


class PlannedRange(ReadRange):
    """A range to read, and what was observed there."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


class DecodedRange(Coordinates):
    """Raw rows that were decoded: how many have a typed row, and how many are in quarantine."""

    rows: int
    typed: int
    quarantined: int


class LostRows(Coordinates):
    """Rows that a rewind removes and Kafka can no longer give back."""

    rows: int
    reason: str


class DamagedFile(Shape):
    """A data file that is gone or cannot be read; its rows count as missing."""

    path: str
    why: str


class Flaw(Coordinates):
    """What an audit reports; `topic` is null where the ledger does not know the name.

    For duplicates, `offsets` counts the rows too many.
    """

    topic: str | None  # type: ignore[assignment]
    offsets: int


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


class Coverage(Shape):
    """Verified offsets of one log."""

    identity: Identity
    intervals: tuple[Offsets, ...]


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


class Gone(Shape):
    """Offsets that a backfill asks for and Kafka has deleted."""

    topic: str
    partition: int
    intervals: tuple[Offsets, ...]
    uncertain: bool


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
    intervals: tuple[Offsets, ...]
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


class BucketFlaw(Shape):
    """A bucket that is not as the ledger says: its rows, or what its changes make of it.

    `order`: changes have no place in the one order, and `bucket` is null: all are in doubt.
    """

    bucket: int | None
    place: Literal["table", "changes", "order"]
    expected: str
    found: str


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


class RunSeconds(Shape):
    """What each phase of the live run took that landed last; together, all from begin to end."""

    run_id: str
    planning: float
    waiting_for_task: float
    waiting_for_spark: float
    reading: float
    committing: float
    verifying: float


class CurrentStatus(Shape):
    """The current table as its last fold has left it.

    `unfolded` counts decoded offsets whose changes are not in it yet. `unproven_since`: a loss of
    records was accepted before that fold, and a delete among them never comes; null for none.
    """

    rows: int
    deleted: int
    buckets: int
    unfolded: int
    folded_at: IsoTime | None
    unproven_since: IsoTime | None


class TableNameStatus(Shape):
    """A name in a catalog, when it was looked at; `finding` is null where it stands for the table.

    `catalog_elsewhere`: it points to another location. `catalog_not_ours`: it is a view, a managed
    table, or of another format. `catalog_missing_schema`: there is no such schema.
    `catalog_away`: the catalog did not answer, or not well.
    """

    role: Role
    name: str
    uri: str
    looked_at: IsoTime
    finding: CatalogFinding | None
    text: str


class ErasureUnderWay(Shape):
    """An erasure by key that is not done; on `due_at` the last file that may hold a record goes."""

    erasure_id: str
    status: Literal["begun", "removed"]
    due_at: IsoTime
    overdue: bool


class StreamStatus(Shape):
    """A stream in one line; `is_measured` is false where the brokers did not tell all of the lag.

    `problem` says why, and what else speaks against their answer: a topic that they refuse, that is
    gone or was created again, a log that lacks the next offset.
    `offset_lag` counts unread offsets, `undecoded` landed ones without a typed row, `in_quarantine`
    rows of the quarantine when something was last done to it. Null is unknown; `headroom_seconds`
    is negative when retention is overdue, 0 when it has deleted what is unread, and
    `headroom_estimated` where no run has measured it. `expectations`: rows that failed each one in
    the newest decoding. `names`: those of its tables in a catalog. `current` is null where nothing
    was ever folded. `erasures`: those by key that are under way; `untold` ones are not settled
    before their keys are erased once more.
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


class TableUpkeep(Shape):
    """One table's maintenance; `after` is null in a dry run.

    `expired` counts rows of the quarantine that were removed for their age.
    """

    table: Role
    uri: str
    before: TableSize
    merged: FileCount
    written: FileCount
    vacuumed: FileCount
    expired: RowCount
    after: TableSize | None
