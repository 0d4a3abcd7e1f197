"""Real typed and current tables, and the real steps over them; ledger and raw table in memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from devstack.spark_apps import InProcessSpark, NoSpark
from tests.fuzz import keys, oracle
from tests.fuzz.topic import Incarnation, Place, Topic
from tests.simulation.store import MemoryStore, StoreState
from tests.worlds.folds import runs_of
from tests.worlds.rows import LOG
from tideline.delta.delta_io import files_of
from tideline.folding.current_checking import CurrentCheck, check_current
from tideline.folding.engine import fold_here
from tideline.folding.fold_steps import fold_changes, verify_current
from tideline.folding.sweeping import StaleRows, find_stale_rows, sweep
from tideline.folding.views import Engine, view_of
from tideline.kafka.kafka_port import KafkaPort
from tideline.landing.context import RunContext, TypedTables
from tideline.launch.progress import logged_seldom
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.current import FoldRequest
from tideline.model.decoding import PartPlan, ReaderSchema, TypedColumn
from tideline.model.fold_job import FoldJob, FoldResult
from tideline.model.head import KnownCommit, PartitionPosition
from tideline.model.incident import Decision
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange, PartitionIdentity, ReadRange
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import LandedRange
from tideline.model.request import RunRequest
from tideline.stream.stream import Stream
from tideline.table.delta_table import TargetTable
from tideline.table.schema import (
    CURRENT_COORDINATES,
    LEDGER_PROPERTY,
    STREAM_PROPERTY,
    TYPED_COORDINATES,
)
from tideline.table.table_port import TablePort

TOPIC = "orders"
_OWN = [
    *LOG,
    ("is_tombstone", pa.bool_()),
    ("op", pa.string()),
    ("source_timestamp", pa.timestamp("us", "UTC")),
    ("snapshot", pa.string()),
    ("unavailable_columns", pa.list_(pa.string())),
]
_AT = ("topic_id", "generation", "partition", "offset", "timestamp")

Found = dict[str, Any]
"""A row of the current table, or of a view over it."""


@dataclass(frozen=True)
class _SetAside:
    """The quarantine: it says where its records are."""

    ranges: tuple[CoordinateRange, ...]

    def scan(self, columns: Sequence[str], *_: object) -> Iterator[pa.Table]:
        """All of them, as one file."""
        rows = [
            {
                "topic": TOPIC,
                "topic_id": r.topic_id,
                "generation": r.generation,
                "partition": r.partition,
                "offset": offset,
            }
            for r in self.ranges
            for offset in range(r.start_offset, r.end_offset)
        ]
        types = dict(_OWN) | {"topic": pa.string(), "error_class": pa.string()}
        yield pa.Table.from_pylist(rows, pa.schema([(name, types[name]) for name in columns]))

    def observe(self) -> TableObservation:
        """It is there."""
        return TableObservation(exists=True, version=0)


@dataclass(frozen=True)
class _Raw:
    """The raw table: its records have the producer's times, its log says what came when."""

    commits: tuple[KnownCommit, ...]

    def observe(self) -> TableObservation:
        """It is there."""
        return TableObservation(exists=True, version=0)

    def landed(self, *_: object) -> dict[PartitionIdentity, LandedRange]:
        """Nobody asks of these rows whether each is decoded: what is, the topic says."""
        return {}

    def newest_token(self, app_id: str) -> int | None:
        """No run has committed there."""

    def scan(self, *_: object) -> Iterator[pa.Table]:
        """None has another kind of time."""
        return iter(())

    def commits_above(self, token: int) -> tuple[KnownCommit, ...]:
        """The first landing of each incarnation, newest first."""
        return tuple(c for c in reversed(self.commits) if c.token > token)


@dataclass(frozen=True)
class _Kafka:
    """Kafka's answer about the topic that is followed: none of its records is not landed."""

    topic_id: str
    partitions: tuple[()] = ()
    fault: str | None = None
    refusal: str | None = None

    def observe(self, *_: object) -> _Kafka:
        """All that is asked of."""
        return self

    def topic(self, _: str) -> _Kafka:
        """The one that there is."""
        return self

    def offsets_at(self, *_: object) -> dict[object, None]:
        """No record is behind the ends."""
        return {}


class Lake:
    """The tables of one history.

    Args:
        spark: Asked for its views, if it is there.
        folder: Empty.
        topic: Whose records are decoded here.
        options: Of the history: `buckets`, `order`, `keeps`.
    """

    def __init__(
        self,
        spark: InProcessSpark | None,
        folder: Path,
        topic: Topic,
        options: Mapping[str, Any],
    ) -> None:
        self.spark, self.folder, self.topic = spark, folder, topic
        self.folds = 0
        self.key_names = [f"k{n}" for n, _ in enumerate(keys.key_types(topic.key), 1)]
        is_sequence = options["order"] == "sequence"
        current: dict[str, Any] = {
            "key": self.key_names,
            "table": {"buckets": options["buckets"]},
            "keep_deleted": options["keeps"],
        }
        current |= {"sequence_by": ["source_timestamp"]} if is_sequence else {}
        decode: dict[str, Any] = {
            "value": {"format": "json", "framing": "connect", "envelope": "debezium"}
        }
        decode |= {"tombstones": "drop"} if is_sequence else {}
        self.stream = Stream.model_validate(
            {
                "stream": "fuzz",
                "kafka": {"topics": [TOPIC]},
                "table": {"uri": f"{folder}/raw"},
                "decode": decode,
                "current": current,
            }
        )
        self.store = StoreState()
        self.followed = 0
        self.runs: list[str] = []
        parts = (_key_part(self.key_names),)
        self.update(lambda s: replace(s, decoding=replace(s.decoding, parts=parts)))
        if options["order"] == "time":
            self.update(lambda s: replace(s, folding=replace(s.folding, order="time")))

    # ---- the ledger

    @property
    def ledger(self) -> Ledger:
        """A view of it."""
        return Ledger(MemoryStore(self.store), "fuzz")

    @property
    def state(self) -> LedgerState:
        """As it is now."""
        return self.ledger.read()

    def update(self, change: Any) -> None:
        """Another state."""
        self.ledger.update(change)

    def context(self, run_id: str) -> RunContext:
        """What a run is given."""
        hidden = [p for p in self.topic.decoded if self.topic.records[p].hidden]
        decode, current = self.stream.decode, self.stream.current
        assert decode is not None
        assert current is not None
        return RunContext(
            stream=self.stream,
            run_id=run_id,
            request=RunRequest(by="ann"),
            ledger=self.ledger,
            connect=lambda: cast(KafkaPort, _Kafka(self.topic.eras[-1].topic_id)),
            table=cast(TablePort, _Raw(tuple(self._landings()))),
            spark=NoSpark(),
            typed=TypedTables(
                {"": TargetTable(decode.table.uri, {}, TYPED_COORDINATES)},
                cast(TablePort, _SetAside(self.ranges(hidden))),
            ),
            current=TargetTable(current.table.uri, {}, CURRENT_COORDINATES),
            fold=self._fold,
        )

    def _fold(self, job: FoldJob) -> FoldResult:
        self.folds += 1
        return fold_here(lambda uri: files_of(uri, {}), logged_seldom(), job)

    # ---- what is decoded

    def ranges(self, places: Iterable[Place]) -> tuple[CoordinateRange, ...]:
        """Places as ranges of coordinates."""
        found: dict[tuple[int, int, int], list[int]] = {}
        for era, generation, partition, offset in places:
            found.setdefault((era, generation, partition), []).append(offset)
        return tuple(
            CoordinateRange(
                TOPIC,
                self.topic.eras[era].topic_id,
                generation,
                partition,
                r.start_offset,
                r.end_offset,
            )
            for (era, generation, partition), offsets in sorted(found.items())
            for r in runs_of(offsets)
        )

    def coverage(self, places: Iterable[Place]) -> Places:
        """Places as the ledger knows them."""
        return Places.of(self.ranges(places))

    def decoded(self, changed: Iterable[Place]) -> None:
        """What the topic says is decoded stands in the typed table and in the ledger.

        Args:
            changed: Decoded just now, for the first time or again.
        """
        self._write_typed()
        ranges = self.ranges(changed)
        coverage = self.coverage(self.topic.decoded)

        def note(state: LedgerState) -> LedgerState:
            decoding = replace(state.decoding, coverage=coverage)
            folding = state.folding.having_decoded(ranges)
            return replace(self._followed(state), decoding=decoding, folding=folding)

        self.update(note)
        self.followed = len(self.topic.eras)

    def _followed(self, state: LedgerState) -> LedgerState:
        """The landing's head, after each incarnation was followed and the loss accepted."""
        eras = self.topic.eras
        for era in eras[self.followed :]:
            state = state.with_head(
                replace(state.head, positions=_positions(era, era.began), coverage=NOWHERE)
            )
        positions = _positions(eras[-1], eras[-1].generations)
        coverage = self.coverage(self.topic.records)
        return state.with_head(replace(state.head, positions=positions, coverage=coverage))

    def _landings(self) -> Iterator[KnownCommit]:
        """The raw table's log, from its first commit on."""
        for n, _ in enumerate(self.topic.eras, 1):
            found = [p for p in self.topic.records if p[0] == n - 1]
            if found:
                ranges = (ReadRange(r.topic_id, *r.coordinates, None) for r in self.ranges(found))
                yield KnownCommit(n, n, f"plan-{n}", f"landing-{n}", tuple(ranges))

    def forget(self) -> None:
        """The ledger is one of an older version, which has noted no incarnations."""
        ids = [era.topic_id for era in self.topic.eras]
        if len(ids) == len({*ids}):
            self.update(lambda s: replace(s, head=replace(s.head, incarnations=())))

    def fold_misordered(self) -> None:
        """All is folded anew by a ledger that has the incarnations the other way round."""
        known = self.state.head.incarnations
        if all(len(i.ids) == len({*i.ids}) for i in known):
            turned = tuple(replace(i, ids=i.ids[::-1]) for i in known)
            self.update(lambda s: replace(s, head=replace(s.head, incarnations=turned)))
            self.fold("anew")
            self.update(lambda s: replace(s, head=replace(s.head, incarnations=known)))

    def _write_typed(self) -> None:
        kinds = keys.key_types(self.topic.key)
        schema = pa.schema([*_OWN, *zip(self.key_names, kinds, strict=True), *keys.ROW.items()])
        rows = []
        for (era, generation, partition, offset), r in self.topic.typed():
            row: Found = {
                "topic_id": self.topic.eras[era].topic_id,
                "generation": generation,
                "topic": TOPIC,
                "partition": partition,
                "offset": offset,
                "timestamp": r.at,
                "is_tombstone": r.op is None,
                "op": r.op,
                "source_timestamp": r.source_at,
                "snapshot": r.mark,
                "unavailable_columns": [*r.lacks] or None,
            }
            if r.key is not None:
                row |= dict(zip(self.key_names, self.topic.pool[r.key], strict=True))
            if r.op not in (None, "d", "t"):
                row |= {n: v for n, v in self.topic.values(r).items() if n not in r.lacks}
            rows.append(row)
        made = pa.Table.from_pylist(rows, schema)
        if not DeltaTable.is_deltatable(self.typed_uri):
            DeltaTable.create(
                self.typed_uri,
                made.schema,
                configuration={
                    STREAM_PROPERTY: self.stream.stream,
                    LEDGER_PROPERTY: self.state.control.ledger_id,
                },
                raise_if_key_not_exists=False,
            )
        write_deltalake(self.typed_uri, made, mode="overwrite")

    # ---- what is asked of Tideline

    def fold(self, asked: FoldRequest | None = "due", run_id: str | None = None) -> bool:
        """`tideline fold FILE`; whether anything was to be folded."""
        name = run_id or f"run-{len(self.runs)}"
        self.runs.append(name)
        run = self.context(name)
        made = fold_changes(run, asked)
        if made is not None:
            verify_current(run)
        return made is not None

    def check(self) -> CurrentCheck:
        """`tideline fold FILE --check`."""
        return check_current(self.context("check"))

    def decide(self, choice: str) -> None:
        """Somebody answers what has halted the fold last."""
        incident = self.state.folding.incidents[-1]
        decision = Decision(choice, "ann", datetime.now(UTC), "it was meant")
        self.update(lambda s: s.with_decision(incident.incident_id, decision))

    def stale_rows(self) -> StaleRows:
        """`tideline sweep FILE`."""
        return find_stale_rows(self.context("ghosts"))

    def sweep(self, rows: int) -> None:
        """`tideline sweep FILE --rows N`."""
        name = f"run-{len(self.runs)}"
        self.runs.append(name)
        sweep(self.context(name), rows)

    def floors(self, found: Iterable[Any]) -> tuple[oracle.Floor, ...]:
        """Floors as the definition has them: all of them are of one incarnation."""
        known, eras = tuple(found), list[int]()
        for f in known:
            for n, era in enumerate(self.topic.eras):
                began = [*era.began[f.partition : f.partition + 1], 0][0]
                if era.topic_id == f.topic_id and began <= f.generation:
                    eras.append(n)
        return tuple(oracle.Floor(max(eras), f.generation, f.partition, f.offset) for f in known)

    def view(self, engine: Engine, *, is_history: bool = False) -> str:
        """`tideline current FILE --sql`, over tables that both engines know by these names."""
        names = ("current_rows", "typed_rows")
        return view_of(self.context("view"), engine, names, is_history=is_history)

    # ---- what stands there

    @property
    def typed_uri(self) -> str:
        """The typed table's address."""
        assert self.stream.decode is not None
        return self.stream.decode.table.uri

    @property
    def current_uri(self) -> str:
        """The current table's address."""
        assert self.stream.current is not None
        return self.stream.current.table.uri

    def rows(self) -> list[Found]:
        """All rows of the current table."""
        if not Path(self.current_uri).exists():
            return []
        return [*map(self._row, DeltaTable(self.current_uri).to_pyarrow_table().to_pylist())]

    def ask(self, engine: Engine, sql: str) -> list[Found]:
        """The rows of a query over both tables as they are now."""
        tables = {"current_rows": self.current_uri, "typed_rows": self.typed_uri}
        files = {name: DeltaTable(uri).file_uris() for name, uri in tables.items()}
        if engine == "duckdb":
            with duckdb.connect() as duck:
                duck.execute("SET TimeZone = 'UTC'")
                for name, paths in files.items():
                    table = f"read_parquet({paths}, hive_partitioning = false)"
                    duck.execute(f"CREATE VIEW {name} AS SELECT * FROM {table}")
                found = duck.sql(sql).to_arrow_table()
        else:
            assert self.spark is not None
            session = self.spark.session
            for name, paths in files.items():
                session.read.parquet(*paths).createOrReplaceTempView(name)
            found = session.sql(sql).toArrow()
        return [*map(self._row, found.to_pylist())]

    def _row(self, row: Found) -> Found:
        """A row with its key as one value."""
        key = tuple(row[n] for n in self.key_names)
        return {"key": key, **{n: v for n, v in row.items() if n not in self.key_names}}

    # ---- what befalls them

    def drop(self) -> None:
        """The current table is gone."""
        shutil.rmtree(self.current_uri, ignore_errors=True)

    def forge(self, kind: str, seed: int) -> bool:
        """Somebody else changes one row of the current table; whether there was one to change."""
        random, table = Random(seed), DeltaTable(self.current_uri)
        data = table.to_pyarrow_table()
        rows = data.to_pylist()
        places = [*range(len(rows))]
        random.shuffle(places)
        for n in places:
            before = rows[n]
            after = forged(kind, before, random)
            if after is None or after == [before]:
                continue
            rows[n : n + 1] = after
            buckets = {before["bucket"], *(row["bucket"] for row in after)}
            made = pa.Table.from_pylist(rows, data.schema)
            for bucket in sorted(buckets):
                write_deltalake(
                    self.current_uri,
                    made.filter(pc.equal(made["bucket"], bucket)),
                    mode="overwrite",
                    predicate=f"bucket = {bucket}",
                )
            return True
        return False


def _key_part(names: Iterable[str]) -> PartPlan:
    """How keys were decoded: of columns that a delete tells, and a record without a value."""
    columns = tuple(TypedColumn(name, name, (name,), "string") for name in names)
    reader = ReaderSchema("key", "json", "", (), columns)
    return PartPlan("key", "json", "connect", None, (), (), (), reader)


def _positions(era: Incarnation, generations: list[int]) -> tuple[PartitionPosition, ...]:
    return tuple(
        PartitionPosition(TOPIC, era.topic_id, generation, n, era.ends[n])
        for n, generation in enumerate(generations)
    )


def forged(kind: str, row: Found, random: Random) -> list[Found] | None:
    """What somebody else makes of a row; None where it is none of that kind."""
    if kind == "lost":
        return []
    if kind == "doubled":
        return [row, row]
    if kind == "revived":
        return [row | {"is_deleted": not row["is_deleted"]}]
    if kind == "older":
        return [row | {"offset": row["offset"] - 1}]
    if kind == "moved":
        return [row | {"bucket": row["bucket"] + 1}]
    if kind == "exchanged":
        return [row | {"v": row["value_bucket"], "value_bucket": row["v"]}]
    if kind == "emptied":
        return [row | {"v": None if row["v"] == "" else "" if row["v"] is None else row["v"]}]
    made = {n: _shifted(row[n]) for n in ("tags", "s", "m") if _shifted(row[n]) is not None}
    if not made:
        return None
    name = random.choice(sorted(made))
    return [row | {name: made[name]}]


FORGERIES = (
    *("lost", "doubled", "revived", "older", "moved", "exchanged", "emptied"),
    *("nested", "nested", "nested"),
)


def _shifted(value: Any) -> Any:
    """A nested value whose null stands in another place; None where it has none."""
    if isinstance(value, dict) and list(value.values()).count(None) == 1:
        return dict(zip(value, reversed(value.values()), strict=True))
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(v, tuple) for v in value):
        texts = [v for _, v in value]
        turned = [*reversed(texts)]
        made = [(k, v) for (k, _), v in zip(value, turned, strict=True)]
        return made if turned != texts else None
    turned = [*reversed(value)]
    return (
        turned if None in value and turned != value else [None, *value] if None in value else None
    )
