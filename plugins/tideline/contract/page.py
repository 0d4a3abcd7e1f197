"""What the page's API answers; the parts are those of the commands' answers.

Every answer that rests on an earlier look says when that was: `asked_at` is null before the first.
"""

from __future__ import annotations

from typing import Any

from tideline.contract.parts import Headroom, Incident, RunSummary, Shape
from tideline.model.status import BandKind, IsoTime, StreamStatus


class Look(Shape):
    """One look at a service: when it last answered, and why it does not answer now.

    `asked_at` is null where it never answered; `problem` is null where it answered last time.
    """

    asked_at: IsoTime | None
    problem: str | None


class Day(Shape):
    """What was landed on one day (UTC); `bytes` is the size of data files.

    `unread` is the most that a live run of the day has found when it planned, `headroom_seconds`
    the least that retention had left of it; null is unknown.
    """

    day: str
    rows: int
    bytes: int
    unread: int
    headroom_seconds: float | None


class ListedStream(Shape):
    """A stream of the list; without a status where its ledger has never answered.

    `retention_seconds` is how long the topic that is reached first keeps records. `warning` says
    which file counts where several name the stream; null where one does. `fleet` is null for a
    stream with a file of its own. `dag_id` is the Dag that lands it.
    """

    stream: str
    dag_id: str
    fleet: str | None
    topics: str
    table: str
    status: StreamStatus | None
    warning: str | None
    retention_seconds: float | None
    days: tuple[Day, ...]
    ledger: Look
    brokers: Look


class StreamList(Shape):
    """The streams that the caller may read, in the order of their names.

    `refreshing`: a look is under way; ask again soon.
    """

    streams: tuple[ListedStream, ...]
    refreshing: bool


class Band(Shape):
    """Offsets `[start_offset, end_offset)` that share a fate."""

    kind: BandKind
    start_offset: int
    end_offset: int


class Log(Shape):
    """One log of a partition: a topic id and a generation of it, with all that became of it."""

    topic_id: str
    generation: int
    current: bool
    start_offset: int
    end_offset: int
    bands: tuple[Band, ...]


class PagePartition(Shape):
    """A partition as the page shows it, its logs oldest first; null is unknown.

    `log_start_offset` and `end_offset` (exclusive) are what the brokers said last.
    """

    topic: str | None
    partition: int
    next_offset: int | None
    log_start_offset: int | None
    end_offset: int | None
    lag: int | None
    headroom: Headroom | None
    logs: tuple[Log, ...]


class Skew(Shape):
    """How unevenly the lag is spread over the partitions, in offsets."""

    total: int
    largest: int
    median: int
    p99: int


class PartitionPage(Shape):
    """Some partitions of a stream, in the order that was asked for, and how many there are."""

    partitions: tuple[PagePartition, ...]
    total: int
    skew: Skew | None
    refreshing: bool


class Choice(Shape):
    """A valid decision, and what it does."""

    choice: str
    meaning: str


class Trigger(Shape):
    """A run that Airflow is asked for: of which Dag, and with which conf."""

    dag_id: str
    conf: dict[str, Any]


class Action(Shape):
    """Where Airflow's own form for something is, and what to fill in there.

    `url` is relative to Airflow's root; `fill` is what the form wants, as JSON; null for nothing.
    `command` does the same in a shell; null where no command is told. `trigger` is the run that
    does it without the form; null where a person has more to say.
    `incident` is the open one that it answers, and `choices` are the decisions if the form has them
    as `choice`; null and empty for all other actions.
    """

    title: str
    url: str
    fill: str | None
    note: str
    command: str | None = None
    trigger: Trigger | None = None
    incident: str | None = None
    choices: tuple[Choice, ...] = ()


class StreamPage(ListedStream):
    """One stream: its place in the list, and what only its own page shows.

    `docs` is the address of these docs as a site, for links to the runbook: `docs` where the page
    shows them itself, null where there are none.
    """

    refreshing: bool
    schedule: str | None
    cluster_id: str | None
    table_version: int | None
    incidents: tuple[Incident, ...]
    actions: tuple[Action, ...]
    docs: str | None


class PageRun(RunSummary):
    """A run, when its record last changed, and where Airflow shows it; null outside of Airflow.

    `incidents` are the open ones that keep it from going on.
    """

    updated_at: IsoTime
    reason: str | None
    url: str | None
    incidents: tuple[str, ...]


class RunPage(Shape):
    """The newest runs, the newest first."""

    runs: tuple[PageRun, ...]
    more: bool


class Hour(Shape):
    """Live runs that were planned in one hour (UTC).

    `unread` is the most that one of them has found, `seconds` the longest from its begin to its
    end; null is unknown.
    """

    begins_at: IsoTime
    runs: int
    rows: int
    unread: int
    seconds: float | None


class Pace(Shape):
    """The hours of the last day that have runs, oldest first, and what follows from the last six.

    `caught_up_at`: when nothing will be unread at this pace; null where the next run reads it all,
    where nobody knows, and where the lag `grows`.
    """

    hours: tuple[Hour, ...]
    caught_up_at: IsoTime | None
    grows: bool


class QuarantinedRecord(Shape):
    """Where a record is, and why it has no typed row; neither its key nor its value.

    `part` is what could not be decoded: the key, the value, or null for the row as a whole.
    """

    topic: str
    partition: int
    offset: int
    part: str | None
    error_class: str
    error: str


class Quarantine(Shape):
    """What the quarantine holds: rows by error class, and some of each.

    `counted` rows were looked at; where there are `more`, the classes are those of these rows.
    """

    classes: dict[str, int]
    sample: tuple[QuarantinedRecord, ...]
    counted: int
    more: bool


class IncidentPage(Shape):
    """The open incidents, then the newest closed ones."""

    incidents: tuple[Incident, ...]
    more: bool
