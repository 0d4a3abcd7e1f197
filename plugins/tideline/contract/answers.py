"""What each command prints with `--json`, and `.stack.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tideline.contract.parts import (
    CoordinateTuple,
    CurrentAudit,
    DecodedRange,
    DriverStatus,
    Finding,
    Headroom,
    Incident,
    IncidentDetails,
    LostRows,
    Notice,
    Position,
    Problem,
    RangeWithRows,
    Rewind,
    RunSummary,
    Shape,
    TypedAudit,
)
from tideline.model.erasures import ErasedFrom, StillInKafka
from tideline.model.maintenance import TableUpkeep
from tideline.model.offsets import CoordinateRange, PlannedRange
from tideline.model.places import Coverage
from tideline.model.plan import DamagedFile, Gone
from tideline.model.request import Lane
from tideline.model.status import IsoTime, Outcome, StreamStatus
from tideline.rules.audit import BucketFlaw, Flaw


class Failure(Shape):
    """Why a command ends without its answer; `retriable` means that a later try may succeed.

    `error` is a class of `errors.py`; `runbook` names pages of the docs, with anchors.
    """

    status: Literal["halted", "retry", "failed"]
    error: str
    message: str
    retriable: bool
    incidents: tuple[Incident, ...]
    runbook: tuple[str, ...]


class RefusedFiles(Failure):
    """A failure caused by stream files."""

    problems: tuple[Problem, ...]


class FileEdit(Shape):
    """A key that two stream files do not have alike; null for one that is not there.

    `when`: `parse`, as soon as Airflow has parsed the file; `next_run`; `later_records`, for
    what is landed or decoded from then on; `refused`, not by an edit alone.
    """

    key: str
    old: str | None
    new: str | None
    when: Literal["parse", "next_run", "later_records", "refused"]
    text: str


class Edits(Shape):
    """`tideline diff`: what an edit of a live stream's file does."""

    edits: tuple[FileEdit, ...]


class Validation(Shape):
    """`tideline validate`: the streams' names."""

    streams: tuple[str, ...]


class Fetched(Shape):
    """`tideline fetch`: the paths of the jars that runs need."""

    jars: tuple[str, ...]


class Begun(Shape):
    """`tideline init`: the stream file that was written, and what it lands where."""

    file: str
    stream: str
    topics: tuple[str, ...]
    table: str


class Statuses(Shape):
    """`tideline status`: a line for each stream, and this user's warm Spark drivers.

    `problems` is what is wrong with topics of fleets that have no stream for it.
    """

    streams: tuple[StreamStatus, ...]
    drivers: tuple[DriverStatus, ...] = ()
    problems: tuple[str, ...] = ()


class DiagnosisLine(Shape):
    """What a service said; `stream` is null where several streams share it."""

    stream: str | None
    what: str
    place: str
    state: Literal["ok", "warning", "failed"]
    text: str
    seconds: float
    runbook: tuple[str, ...]


class Diagnosis(Shape):
    """`tideline doctor`: each service that streams need; `healthy` where none has failed."""

    healthy: bool
    checks: tuple[DiagnosisLine, ...]


class Explained(Shape):
    """`tideline explain`: what became of the record at an offset.

    `run_id` and `table_version` are null where no run has landed it, or the ledger's history no
    longer names it; `decoded` where nothing is decoded; ids where the partition is not followed.
    """

    topic: str
    partition: int
    offset: int
    outcome: Outcome
    text: str
    topic_id: str | None
    generation: int | None
    next_offset: int | None
    run_id: str | None
    table_version: int | None
    decoded: bool | None


class KeyChange(Shape):
    """One decoded change of a key; `folded` where the current table has it, or a later one.

    `swept`: a later snapshot has not read the row again, and so it counts as a delete. `truncated`:
    a later change said that all rows are gone.
    """

    topic_id: str
    generation: int
    partition: int
    offset: int
    timestamp: IsoTime | None
    deleted: bool
    folded: bool
    swept: bool
    truncated: bool
    values: dict[str, str | None]


class ExplainedKey(Shape):
    """`tideline explain --key`: a key's row, null for none, and its changes, the last one first."""

    key: dict[str, str | None]
    row: dict[str, str | None] | None
    deleted: bool
    changes: tuple[KeyChange, ...]


class Plan(Shape):
    """`tideline plan`: what a run would read now, and what speaks against it."""

    stream: str
    ranges: tuple[PlannedRange, ...]
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]
    notices: tuple[Notice, ...]
    headroom: tuple[Headroom, ...]
    gone: tuple[Gone, ...]
    estimated_records: int
    estimated_bytes: int | None
    offset_lag: int


class RunFacts(Shape):
    """What is known of a run.

    `incidents` are those that halted it, or whose decisions it carried out. `offset_lag` counts
    the offsets left for later runs. `decoded`, `quarantined` and `tombstones` are null where
    nothing was decoded, `folded` where no change was folded.
    """

    status: Literal["done", "nothing_to_do", "halted", "retry", "failed"]
    run_id: str
    plan_id: str | None
    lane: Lane
    ranges: tuple[RangeWithRows, ...]
    rows: int
    decoded: int | None
    quarantined: int | None
    tombstones: int | None
    folded: int | None
    offset_lag: int | None
    table_version: int | None
    incidents: tuple[Incident, ...]
    notices: tuple[Notice, ...]
    superseded_by: str | None
    window: str | None
    reason: str | None
    by: str | None


class Run(RunFacts):
    """`tideline run`: a closed run.

    `replayed`: the run id had ended before, so its plan was read again, and nothing that is new:
    `offset_lag` is null.
    """

    status: Literal["done", "nothing_to_do"]
    replayed: bool


class RunFailure(Failure, RunFacts):
    """`tideline run`: a run that did not end; its `offset_lag` is unknown."""

    offset_lag: None = None


class FleetStream(Shape):
    """One stream of a fleet's run: `busy` where another run holds it, which lands it.

    `closed_before`: this run id had landed it already. `error` and `message` say why it did not
    end, as a `Failure` does; `offset_lag` is null there.
    """

    stream: str
    status: Literal["done", "nothing_to_do", "closed_before", "busy", "halted", "retry", "failed"]
    rows: int
    offset_lag: int | None
    seconds: float
    error: str | None
    message: str | None
    runbook: tuple[str, ...]


class FleetRun(Shape):
    """`tideline run` of a fleet: each of its streams; its `status` is the worst of theirs.

    `problems` are topics that have no stream, and why the topics could not be looked for.
    """

    status: Literal["done", "nothing_to_do", "halted", "retry", "failed"]
    fleet: str
    run_id: str
    rows: int
    streams: tuple[FleetStream, ...]
    problems: tuple[str, ...]


class FleetTopic(Shape):
    """A topic of a fleet; `gone_since` is null while it is there and not hidden from us."""

    name: str
    topic_id: str
    first_seen: IsoTime
    gone_since: IsoTime | None


class Discovered(Shape):
    """`tideline discover`: all topics that are known now, and what this look has changed.

    `problems` are topics that have no stream.
    """

    fleet: str
    topics: tuple[FleetTopic, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]
    back: tuple[str, ...]
    problems: tuple[str, ...]


class Decoded(Shape):
    """`tideline decode`: what became of raw rows; by error class for those in quarantine.

    `expectations`: rows that fail each, wherever they went. `types`: typed rows by event type,
    where a topic has several.
    """

    status: Literal["done", "nothing_to_do"]
    run_id: str
    plan_id: str | None
    decoded: int
    types: dict[str, int]
    quarantined: int
    tombstones: int
    classes: dict[str, int]
    expectations: dict[str, int]
    table_version: int | None
    quarantine_version: int | None
    ranges: tuple[DecodedRange, ...]
    notices: tuple[Notice, ...]


class Folded(Shape):
    """`tideline fold`: what was folded, and what the current table holds now.

    `changes` are typed rows, `keyless` those of them that have no key and are in no row. `rows` are
    those of keys that are there, `deleted` those of keys that are gone; `buckets` were written.
    """

    status: Literal["done", "nothing_to_do"]
    run_id: str
    plan_id: str | None
    changes: int
    keyless: int
    rows: int
    deleted: int
    buckets: int
    table_version: int | None
    ranges: tuple[CoordinateRange, ...]


class CurrentChecked(Shape):
    """`tideline fold --check`: the current table against the ledger and against its changes.

    `buckets` are those that were looked at, null for all.
    """

    clean: bool
    changes: int
    rows: int
    deleted: int
    flaws: tuple[BucketFlaw, ...]
    buckets: tuple[int, ...] | None


class CurrentView(Shape):
    """`tideline current`: a query over the current table and the typed one."""

    sql: str


class Swept(Shape):
    """`tideline sweep`: rows that the last whole snapshot has not read again; `keys` are the first.

    They are gone where the status is `done`; `listed` has changed nothing.
    """

    status: Literal["listed", "nothing_to_do", "done"]
    rows: int
    keys: tuple[dict[str, str | None], ...]
    snapshot_began_at: IsoTime
    snapshot_ended_at: IsoTime


class DecodedAgain(Shape):
    """`tideline decode --again`: rows that are others than before, new or gone, by table."""

    status: Literal["done", "nothing_to_do"]
    run_id: str
    asked: int
    changed: int
    quarantine_changed: int
    table_version: int | None
    quarantine_version: int | None


class Redriven(Shape):
    """`tideline redrive`: quarantined records that were decoded again; `moved` have typed rows."""

    status: Literal["done", "nothing_to_do"]
    run_id: str
    asked: int
    moved: int
    left: int
    table_version: int | None
    quarantine_version: int | None


class Ledger(Shape):
    """`tideline ledger`: positions, runs, coverage, incidents (the open ones first), rewinds."""

    location: str
    stream: str
    version: int
    head: tuple[Position, ...]
    plans: tuple[RunSummary, ...]
    coverage: tuple[Coverage, ...]
    incidents: tuple[Incident, ...]
    headroom: tuple[Headroom, ...]
    rewinds: tuple[Rewind, ...]


class Incidents(Shape):
    """`tideline incident`: the open incidents, or the one that was asked for."""

    incidents: tuple[IncidentDetails, ...]


class Resolution(Shape):
    """`tideline resolve`: the incident with the decision; `incidents` are all that it answers."""

    incident: Incident
    incidents: tuple[Incident, ...]


class Audit(Shape):
    """`tideline audit`: ledger, table and broker held against each other."""

    rows: int
    gaps: tuple[Flaw, ...]
    overlaps: tuple[Flaw, ...]
    duplicates: tuple[Flaw, ...]
    missing: tuple[Flaw, ...]
    foreign: tuple[Flaw, ...]
    unverified: tuple[Flaw, ...]
    damaged: tuple[DamagedFile, ...]
    typed: TypedAudit | None
    current: CurrentAudit | None
    table_version: int | None
    erased: int
    clean: bool
    findings: tuple[Finding, ...]


class Done(Shape):
    """Something was done."""

    status: Literal["done"] = "done"


class Rewound(Rewind, Done):
    """`tideline rewind`: a finished rewind and the head after it."""

    head: tuple[Position, ...]


class NotRewound(Shape):
    """`tideline rewind`: the stream was in the wanted state already."""

    status: Literal["nothing_to_do"] = "nothing_to_do"
    rewind_id: None = None
    to_run: str
    removed_rows: Literal[0] = 0
    table_version: int | None
    undone_runs: tuple[str, ...] = ()
    lost: tuple[LostRows, ...] = ()
    head: tuple[Position, ...]


class RewindFailure(Failure):
    """`tideline rewind`: a refusal or an error, with the rows that Kafka cannot give back."""

    to_run: str
    lost: tuple[LostRows, ...]


class Maintenance(Shape):
    """`tideline maintain`: what was merged and deleted, or would be; no row changes."""

    status: Literal["done", "nothing_to_do"]
    stream: str
    dry_run: bool
    tables: tuple[TableUpkeep, ...]


class Erasure(Shape):
    """One erasure: asked, found, removed, what is due when, and the audit after it.

    `keys` are keyed hashes, pseudonyms: whoever can read the ledger can test guesses. Of those
    `without_records` nothing was found. `unread` offsets of the stream were not landed when it was
    begun, null if unknown. `overdue` says that files should be gone.
    `undecided` is where records are whose bytes hold a key, and that nothing proves to be of it.
    Its keys are those of the erasures that it `settles`, too.
    """

    erasure_id: str
    status: Literal["begun", "removed", "done"]
    reason: str
    by: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    records: int
    ranges: tuple[CoordinateTuple, ...]
    tables: tuple[ErasedFrom, ...]
    kafka: tuple[StillInKafka, ...]
    future: bool
    begun_at: IsoTime
    removed_at: IsoTime | None
    due_at: IsoTime
    finished_at: IsoTime | None
    overdue: bool
    audit: str | None
    undecided: tuple[CoordinateTuple, ...]
    settles: tuple[str, ...]
    without_records: tuple[str, ...]
    unread: int | None
    elsewhere: tuple[str, ...]


class Erased(Shape):
    """`tideline erase`: the erasure as it is now; null where no record was found.

    `before` names erasures that took out records of these keys. With `--plan` nothing was done.
    `without_records` are the keys of which none was found, from 1 in the order in which they were
    given. `undecided` and `unread` as of an erasure. `older_keys` of the current table keep older
    changes: `older_deleted` of them are deleted today, and `older_moved` would have a row again, or
    an older one.
    """

    status: Literal["planned", "removed", "done", "nothing_to_do"]
    stream: str
    before: tuple[str, ...]
    undecoded: int
    without_records: tuple[int, ...]
    unread: int | None
    undecided: tuple[CoordinateTuple, ...]
    older_keys: int
    older_deleted: int
    older_moved: int
    erasure: Erasure | None


class Erasures(Shape):
    """`tideline erasures`: all of them, oldest first, and how many later records were refused.

    Of `untold` ones a table has told the coordinates only: their keys are to be erased once more.
    """

    stream: str
    suppressed: int
    refused: int
    untold: tuple[str, ...]
    erasures: tuple[Erasure, ...]


class Move(Shape):
    """`tideline move-ledger`: `source` is null where the ledger was at its new location already."""

    stream: str
    moved: bool
    source: str | None = Field(serialization_alias="from")
    location: str


class Demo(Shape):
    """`tideline demo`: the producer's log held against the tables.

    `typed` counts rows of the typed table that are no tombstones; `typed_exact` says that each
    record stands in it or in quarantine, once, with its own values.
    """

    produced: int
    rows: int
    equal: int
    lost: int
    duplicate: int
    foreign: int
    different: int
    exact: bool
    typed: int
    tombstones: int
    quarantined: int
    redriven: int
    typed_exact: bool
    clean: bool
    status: Literal["done", "failed"]
    seconds: int


class StackProcess(Shape):
    """One process of the embedded stack; `started` tells it from a later one with its pid."""

    name: str
    pid: int
    started: str
    log: str


class StackFile(Shape):
    """`.stack.json`, which `make up` writes."""

    bootstrap_servers: str
    airflow_url: str
    username: str
    password: str
    streams_folder: str
    processes: tuple[StackProcess, ...]
