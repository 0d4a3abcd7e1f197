"""Everything that outlives a process, and the services that a process is given."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from tests.simulation.clock import Clock, Machine
from tests.simulation.current import COLUMNS, Change, CurrentState, SimulatedCurrent
from tests.simulation.kafka import (
    ABORTED,
    HOLE,
    NO_TIME,
    OPEN,
    RECORD,
    Cluster,
    Entry,
    Log,
    SimulatedKafka,
    Topic,
)
from tests.simulation.process import Process, running
from tests.simulation.spark import SimulatedRegistry, SimulatedSpark, SparkState
from tests.simulation.store import MemoryStore, StoreState
from tests.simulation.table import Row, SimulatedTable, TableState, is_valueless
from tideline.errors import LedgerElsewhere
from tideline.landing.context import RunContext, TypedTables
from tideline.ledger.ledger import Ledger
from tideline.ledger.ledger_port import LedgerStore
from tideline.ledger.state import LedgerState
from tideline.model.addresses import LedgerLocation
from tideline.model.current import Floor
from tideline.model.request import RunRequest
from tideline.stream.stream import Stream

STREAM = "s"


class Origin(NamedTuple):
    """Where a record was written, and where a transaction left it."""

    topic: str
    topic_id: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Asked:
    """What a run id stands for, so that it can be asked again."""

    run_id: str
    request: RunRequest


@dataclass(frozen=True)
class Backup:
    """A ledger as it was.

    Args:
        location: Where.
        store: Its documents and history.
        shown: How far it had been shown each log.
        records: How many records there had ever been.
    """

    location: str
    store: StoreState
    shown: Mapping[tuple[str, int], int]
    records: int


@dataclass
class World:
    """The world of one history.

    Args:
        stream: The stream file's content.
        topics: Partitions by topic name, to begin with.
        taken: Coordinates whose raw rows others have taken away once.
        erased_keys: Keys whose records somebody has asked to erase.
        erased_texts: The same of a typed column, `essay`, by its number.
        typed_once: Rows of the typed table as changes were erased, one at a time, by a column.
        former: What stands at addresses that the stream file no longer names, by address.
        of_types: The typed tables of event types but for the first, whose table is `decoded`.
        strays: Records with a key that belongs into another partition.
        dropped: Partitions that a topic has lost, by its id.
        sweeps: The floors of each sweep that was begun, by its plan's id, the last one last.
    """

    stream: Stream
    topics: Mapping[str, int]
    clock: Clock = field(default_factory=Clock)
    clusters: list[Cluster] = field(default_factory=list)
    connected_to: int = 0
    table: TableState = field(default_factory=TableState)
    decoded: TableState = field(default_factory=TableState)
    quarantine: TableState = field(default_factory=TableState)
    current: CurrentState = field(default_factory=CurrentState)
    strays: set[int] = field(default_factory=set)
    spark: SparkState = field(default_factory=SparkState)
    stores: dict[str, StoreState] = field(default_factory=dict)
    location: str = "/lake/ledger-1"
    processes: list[Process] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=lambda: [Origin("", "", -1, -1)])
    facts: dict[str, set[tuple[str, int] | None]] = field(default_factory=lambda: defaultdict(set))
    unseen: set[int] = field(default_factory=set)
    shown: dict[tuple[str, int], int] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    foreign: set[tuple[Any, int]] = field(default_factory=set)
    taken: set[tuple[Any, int]] = field(default_factory=set)
    restored: set[tuple[Any, int]] = field(default_factory=set)
    erased_keys: set[bytes] = field(default_factory=set)
    erased_texts: set[int] = field(default_factory=set)
    typed_once: set[Row] = field(default_factory=set)
    dropped: set[tuple[str, int]] = field(default_factory=set)
    sweeps: dict[str, tuple[Floor, ...]] = field(default_factory=dict)
    former: dict[str, TableState] = field(default_factory=dict)
    of_types: dict[str, TableState] = field(default_factory=lambda: defaultdict(TableState))
    counts: Counter[str] = field(default_factory=Counter)
    committed: Callable[[], None] = lambda: None
    put_back_from: Callable[[LedgerState], None] = lambda state: None
    put_back_to: Callable[[LedgerState], None] = lambda state: None
    backup: Backup | None = None
    is_put_back: bool = False
    moved_away: TableState | None = None

    def __post_init__(self) -> None:
        cluster = self.new_cluster()
        for name, partitions in self.topics.items():
            self.new_topic(cluster, name, partitions)
        self._state: tuple[tuple[str, int], LedgerState] | None = None
        self.decode, self.folds = self.stream.decode, self.stream.current
        self.times: dict[int, int] = {}

    @property
    def cluster(self) -> Cluster:
        """The cluster that the stream's connection leads to."""
        return self.clusters[self.connected_to]

    @property
    def store(self) -> StoreState:
        """The documents at the location that the stream file names."""
        return self._at(self.location)

    def _at(self, location: str) -> StoreState:
        if location not in self.stores:
            self.stores[location] = StoreState(committed=lambda: self.committed())
        return self.stores[location]

    def back_up(self) -> None:
        """Copy the ledger, as it stands, once there is one."""
        store = self.store
        if not store.documents:
            return
        self.backup = Backup(self.location, store.copy(), dict(self.shown), len(self.origins))

    def put_back(self) -> bool:
        """Have the ledger be what the last backup holds; whether there is one of it.

        Nobody can miss what is in no log by now and what the backup was never shown.
        """
        saved = self.backup
        before = self.state()
        if saved is None or saved.location != self.location or before is None:
            return False
        with self.calm():
            self.put_back_from(before)
        self.store.put_back(saved.store)
        self._state = None
        self.shown = dict(saved.shown)
        state = self.state()
        if state is None:
            return False
        known = dict(saved.shown)
        for position in state.head.positions:
            log = (position.topic_id, position.partition)
            known[log] = max(known.get(log, 0), position.proven_end)
        there = {e.serial for e in self._entries()}
        self.unseen |= {
            serial
            for serial, origin in enumerate(self.origins)
            if serial not in there
            and (
                serial >= saved.records
                or origin.offset >= known.get((origin.topic_id, origin.partition), 0)
            )
        }
        self.is_put_back = True
        self.put_back_to(state)
        return True

    def number(self, what: str) -> int:
        """The next number of its kind, from 1."""
        self.counts[what] += 1
        return self.counts[what]

    def new_cluster(self) -> Cluster:
        """Another cluster; nothing leads to it yet."""
        cluster = Cluster(f"cluster-{len(self.clusters) + 1}")
        self.clusters.append(cluster)
        return cluster

    def new_topic(self, cluster: Cluster, name: str, partitions: int) -> Topic:
        """A new incarnation of a topic, empty."""
        topic = Topic(
            f"{self.number('topic') * 0x9E3779B1 % 2**32:08x}-0000-4000-8000-000000000000",
            [Log() for _ in range(partitions)],
        )
        cluster.topics[name] = topic
        return topic

    def produce(self, name: str, partition: int, count: int, producer: int = 0) -> None:
        """Append records; with a producer, as part of its open transaction."""
        topic = self.cluster.topics[name]
        log = topic.logs[partition]
        for _ in range(count):
            kind = OPEN if producer else RECORD
            time = NO_TIME if "times" in self.cluster.hidden else self.clock.epoch_ms()
            entry = Entry(kind, len(self.origins), time, producer)
            self.times[entry.serial] = time
            self.clock.milliseconds += 1
            self.origins.append(Origin(name, topic.topic_id, partition, log.end))
            log.entries.append(entry)

    def happened(self, kind: str, place: tuple[str, int] | None = None) -> None:
        """Note that a class of findings is justified from now on, at a place or everywhere."""
        self.facts[kind].add(place)

    # ---- services

    def open_store(self, location: str, process: Process | None = None) -> LedgerStore:
        """The store at a location."""
        tick = process.tick if process is not None else lambda label: None
        state = self._at(location)
        return MemoryStore(state, location, tick, self.clock.now)

    def ledger(self, process: Process | None = None) -> Ledger:
        """The stream's ledger, where the stream file says it is."""
        return Ledger(self.open_store(self.location, process), STREAM)

    def context(self, process: Process | None, run_id: str, request: RunRequest) -> RunContext:
        """What a run is given."""
        tick = process.tick if process is not None else lambda label: None
        kafka = SimulatedKafka(lambda: self.cluster, tick, self.clock.now)
        spark = SimulatedSpark(
            self.spark,
            lambda: self.cluster,
            self.table,
            self.decoded,
            self.quarantine,
            self.current,
            self.said,
            tick,
            self.typed_tables,
        )
        return RunContext(
            stream=self.stream,
            run_id=run_id,
            request=request,
            ledger=self.ledger(process),
            connect=lambda: kafka,
            table=SimulatedTable(self.table, tick, "table", self.stream.table.uri, self._has),
            spark=spark,
            fold=spark.fold,
            connect_registry=lambda: SimulatedRegistry(tick),
            typed=self._typed(tick),
            current=None
            if self.stream.current is None
            else SimulatedCurrent(self.current, tick, "current", self.stream.current.table.uri),
            open_table=lambda role, uri: self._former(role, uri, tick),
        )

    def _former(self, role: str, uri: str, tick: Callable[[str], None]) -> Any:
        named = {} if self.decode is None else self.decode.addresses  # a type may be taken out
        today = {uri: self.typed_tables[name] for name, uri in named.items()}
        state = (today | self.former).get(uri, TableState())
        kind = SimulatedCurrent if isinstance(state, CurrentState) else SimulatedTable
        table = kind(state, tick, role, uri)
        if role == "decoded":
            table = kind(state, tick, role, uri, self._says)
            table.fields = COLUMNS
        return table

    def _has(self, row: Row) -> Mapping[str, Any]:
        return {"value": None} if self.drops and is_valueless(row.serial) else {}

    def _says(self, row: Row) -> Mapping[str, Any]:
        return {"k": self.said(row).key, "essay": f"key-{row.serial % 5}"}

    def readdress(self) -> None:
        """The stream file names other typed and current tables from now on."""
        number = self.number("address")
        if self.stream.decode is not None:  # with all of its event types
            self.stream = self.stream.model_copy(update={"decode": self.decode})
        for section, new in (("decode", self.decode), ("current", self.folds)):
            if new is None:
                continue
            table = new.table.model_copy(update={"uri": f"/lake/{section}-{number}"})
            update: dict[str, Any] = {"table": table}
            if section == "decode":
                self.former |= {uri: self.typed_tables[n] for n, uri in new.addresses.items()}
                self.former[new.quarantine.uri] = self.quarantine
                if new.types:
                    table = new.table.model_copy(
                        update={"uri": f"/lake/{section}-{number}-{{type}}"}
                    )
                    update["table"] = table
                    for name in self.of_types:
                        self.of_types[name] = TableState(created=10 * number)
                other = new.quarantine.model_copy(update={"uri": f"/lake/bad-{number}"})
                update["quarantine"] = other
                self.decoded = TableState(created=10 * number)
                self.quarantine = TableState(created=10 * number)
            else:
                self.former[new.table.uri] = self.current
                self.current = CurrentState(created=10 * number)
            setattr(
                self, "decode" if section == "decode" else "folds", new.model_copy(update=update)
            )
        self.stream = self.stream.model_copy(update={"decode": self.decode, "current": self.folds})

    def rename(self) -> None:
        """The typed tables are what they were, and have other addresses as well."""
        put_back, number = self.decode, self.number("address")
        assert put_back is not None
        self.former |= {uri: self.typed_tables[n] for n, uri in put_back.addresses.items()}
        self.former[put_back.quarantine.uri] = self.quarantine
        ends = {"table": "-{type}" if put_back.types else "", "quarantine": "-bad"}
        update = {
            section: getattr(put_back, section).model_copy(
                update={"uri": f"/lake/moved-{number}{end}"}
            )
            for section, end in ends.items()
        }
        self.decode = put_back.model_copy(update=update)
        self.stream = self.stream.model_copy(update={"decode": self.decode})

    def said(self, row: Row) -> Change:
        """What a typed row says: some are deletes, some lack the long value."""
        origin = self.origins[row.serial]
        home = origin.partition + (row.serial in self.strays)
        can_lack = self.decode is not None and self.decode.value.unavailable is not None
        return Change(
            f"{home}-{row.serial % 3}",
            row.identity,
            row.offset,
            self.times[row.serial],
            row.serial,
            is_deleted=row.serial % 4 == 0,
            lacks=can_lack and row.serial % 5 in (1, 3),
        )

    def _typed(self, tick: Callable[[str], None]) -> TypedTables | None:
        if self.stream.decode is None:
            return None
        decode, by_type = self.stream.decode, {}
        for name, uri in decode.addresses.items():
            state = self.typed_tables[name]
            by_type[name] = SimulatedTable(state, tick, f"decoded{name}", uri, self._says)
            by_type[name].fields = COLUMNS
        bad = SimulatedTable(self.quarantine, tick, "quarantine", decode.quarantine.uri)
        return TypedTables(by_type, bad)

    @property
    def drops(self) -> bool:
        """Whether records without a value are in none of the typed tables."""
        return self.decode is not None and self.decode.tombstones == "drop"

    @property
    def typed_tables(self) -> dict[str, TableState]:
        """The typed tables by event type; the only one by no name."""
        decode = self.decode  # the stream file may lack the section, or a type, for a while
        first, *more = (*(t.type for t in decode.types),) if decode and decode.types else ("",)
        return {first: self.decoded, **{name: self.of_types[name] for name in more}}

    def locate(self, address: str) -> LedgerLocation:
        """A ledger's location as the stream file would name it."""
        return LedgerLocation("delta", address, STREAM)

    # ---- processes

    def start(self, name: str, work: Callable[[Process], object]) -> Process:
        """A process that has not done anything yet."""
        process = Process(name, work)
        self.processes.append(process)
        return process

    @property
    def alive(self) -> list[Process]:
        """Processes that have not ended."""
        return [p for p in self.processes if not p.is_over]

    def machine(self) -> Machine:
        """What the product's modules ask."""
        return Machine(
            self.clock,
            reach=lambda place: _with_running(lambda p: p.tick(f"@{place}")),
            pause=self._pause,
            elapsed=lambda: p.slept if (p := running()) is not None else 0.0,
            ahead=lambda: p.clock_ahead if (p := running()) is not None else timedelta(),
            renew=lambda renew: p.keeper(renew) if (p := running()) is not None else (lambda: None),
            is_gone=lambda lease: lease.holder in self._gone(),
            named=lambda name: _with_running(lambda p: p.holders.add(name)),
        )

    def _pause(self, seconds: float) -> None:
        process = running()
        if process is not None:
            process.slept += seconds
            process.tick("pause")

    def _gone(self) -> set[str]:
        return {h for p in self.processes if p.is_over and p.is_noticed for h in p.holders}

    # ---- looking

    @property
    def tables(self) -> tuple[TableState, ...]:
        """The raw table, the typed one and the quarantine."""
        return self.table, self.decoded, self.quarantine

    @property
    def every_table(self) -> tuple[TableState, ...]:
        """These, and the current one."""
        return *self.tables, self.current

    def state(self) -> LedgerState | None:
        """The ledger as it is; None where it has been moved and nobody has told the stream file."""
        key = (self.location, self.store.version)
        if self._state is None or self._state[0] != key:
            try:
                with self.calm():
                    self._state = (key, self.ledger().read())
            except LedgerElsewhere:
                return None
        return self._state[1]

    @contextmanager
    def calm(self) -> Iterator[None]:
        """For whoever stands outside of the world, the ledger's store always answers."""
        store = self.store
        troubles = (store.away, store.lost_answers)
        store.away = store.lost_answers = 0
        try:
            yield
        finally:
            store.away, store.lost_answers = troubles

    def live_logs(self) -> Iterable[tuple[str, Topic, int, Log]]:
        """Every partition of the connected cluster: topic name, topic, number, log."""
        for name, topic in sorted(self.cluster.topics.items()):
            for number, log in enumerate(topic.logs):
                yield name, topic, number, log

    def readable(self) -> set[int]:
        """The records that a reader of this stream may see, or could have seen before they went."""
        hidden = {HOLE, OPEN}
        if self.stream.kafka.isolation_level == "read_committed":
            hidden.add(ABORTED)
        unread = {e.serial for e in self._entries() if e.kind in hidden}
        return set(range(1, len(self.origins))) - unread - self.aborted

    def _entries(self) -> Iterator[Entry]:
        """Whatever stands in a log of any cluster."""
        for cluster in self.clusters:
            for topic in cluster.topics.values():
                for log in topic.logs:
                    yield from log.entries


def _with_running(act: Callable[[Process], object]) -> None:
    process = running()
    if process is not None:
        act(process)
