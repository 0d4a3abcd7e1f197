"""A stream with landed rows in a real table, whose typed tables are real as well; no Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from deltalake import DeltaTable, write_deltalake

from tests.simulation.store import MemoryStore, StoreState
from tests.worlds.build import ID, head, position
from tests.worlds.registries import FakeRegistry
from tests.worlds.rows import LOG, name_files, raw_rows, write_files
from tideline.catalog.catalog_port import CatalogPort
from tideline.decoding.verifying import typed_against_raw
from tideline.documents import dump, load
from tideline.landing.context import RunContext, TypedTables
from tideline.ledger.ledger import Ledger
from tideline.model.decoding import DecodedAgain, DecodePlan, DecodeRecord, PartPlan, Redriven
from tideline.model.offsets import PartitionIdentity, one_interval
from tideline.model.places import NOWHERE
from tideline.model.request import RunRequest
from tideline.model.spark_job import DecodeJob, DecodeResult, Output, SparkResult
from tideline.operations.redrive import decode_again, redrive
from tideline.pipeline.run_batch import decode_batch
from tideline.rules.audit import TypedAudit
from tideline.stream.files import read_stream
from tideline.table.delta_table import TargetTable
from tideline.table.schema import QUARANTINE_COLUMNS, TYPED_COORDINATES, own_columns

_TYPED = [*LOG, ("schema_id", pa.int32()), ("decode_plan_id", pa.string())]
TYPED = pa.schema([*_TYPED, ("is_tombstone", pa.bool_())])
QUARANTINED = pa.schema([*_TYPED, ("error_class", pa.string())])


class FakeDecoder:
    """Judges values by the id in their first five bytes; the fields stay null.

    Args:
        loses, doubles: Offsets that it writes and counts not at all, or twice, as a bug would.

    `jobs` are those that it was given.
    """

    def __init__(self, loses: Iterable[int] = (), doubles: Iterable[int] = ()) -> None:
        self.loses, self.doubles = set(loses), set(doubles)
        self.jobs: list[DecodeJob] = []

    def submit(self, job_path: str) -> None:
        """Run the job file as spark-submit would."""
        job = load(DecodeJob, Path(job_path).read_bytes(), "the job")
        self.jobs.append(job)
        Path(job.result_path).write_text(dump(self._decoded(job)))

    def _decoded(self, job: DecodeJob) -> DecodeResult:
        if job.types:
            return self._routed(job)
        (part,) = (p for p in job.plan.parts if p.part == "value")
        raw = [r for r in _raw_rows(job) if r["offset"] not in self.loses]
        rows = [r for row in raw for r in [row] * (1 + (row["offset"] in self.doubles))]
        if part.framing == "connect" and not job.is_last_round:
            texts = {r["value"].decode() for r in rows if _id(r["value"], part) is None}
            if texts:
                return DecodeResult(new_schemas={"value": tuple(sorted(texts))})
        is_framed = part.framing == "confluent"
        new = {_id(r["value"], part) for r in rows} - {None, *_known(part)} if is_framed else set()
        unasked = len([r for r in rows if _id(r["value"], part) in new])
        if new and not job.is_last_round:
            return DecodeResult(new_ids={"value": tuple(sorted(i for i in new if i is not None))})
        good, bad, tombstones = [], [], 0
        for row in rows:
            error = (
                "unknown_schema" if _id(row["value"], part) in new else _error(row["value"], part)
            )
            is_tombstone = row["value"] is None
            tombstones += is_tombstone
            kept = {n: row[n] for n, _ in LOG}
            kept |= {"schema_id": _id(row["value"], part), "decode_plan_id": job.plan.plan_id}
            if error is not None:
                bad.append({**kept, "error_class": error})
            elif not is_tombstone or job.plan.tombstones == "keep":
                good.append({**kept, "is_tombstone": is_tombstone})
        return DecodeResult(
            decoded=self.written(job.decoded, good, _typed(job.plan)),
            quarantined=self.written(job.quarantine, bad, QUARANTINED),
            raw_rows=len(rows),
            tombstones=tombstones,
            classes=dict(Counter(str(r["error_class"]) for r in bad)),
            unasked=unasked,
        )

    def _routed(self, job: DecodeJob) -> DecodeResult:
        """Rows of several event types, by the ids that each has claimed."""
        plan = job.plan
        (part,) = (p for p in plan.framed if p.part == "value")
        raw = [r for r in _raw_rows(job) if r["offset"] not in self.loses]
        rows = [r for row in raw for r in [row] * (1 + (row["offset"] in self.doubles))]
        new = {_id(r["value"], part) for r in rows} - {None, *_known(part)}
        if new and not job.is_last_round:
            return DecodeResult(new_ids={"value": tuple(sorted(i for i in new if i is not None))})
        of_id = {i: p for p in plan.parts if p.type in job.types for i in p.claimed}
        good: dict[str, list[dict[str, Any]]] = {name: [] for name in job.types}
        bad: list[dict[str, Any]] = []
        for row in (r for r in rows if r["value"] is not None):
            schema_id = _id(row["value"], part)
            kept = {n: row[n] for n, _ in LOG}
            kept |= {"schema_id": schema_id, "decode_plan_id": plan.plan_id}
            own = None if schema_id is None else of_id.get(schema_id)
            error = _error(row["value"], own or part)
            if schema_id in part.foreign:
                error = "other_type"
            if own is not None and error is None:
                good[own.type].append({**kept, "is_tombstone": False})
            else:
                bad.append({**kept, "error_class": error})
        made = {
            name: self.written(job.types[name].output, of_type, _typed(plan.of_type(name)))
            for name, of_type in good.items()
        }
        return DecodeResult(
            decoded=SparkResult(rows=sum(one.rows for one in made.values())),
            by_type=made,
            quarantined=self.written(job.quarantine, bad, QUARANTINED),
            raw_rows=len(rows),
            tombstones=sum(row["value"] is None for row in rows),
            classes=dict(Counter(str(r["error_class"]) for r in bad)),
            bad_of_types=sum(r["schema_id"] in of_id for r in bad),
            changed=sum(one.rows for one in made.values()),
            quarantine_changed=len(bad),
        )

    def written(self, output: Output, rows: list[dict[str, Any]], schema: pa.Schema) -> SparkResult:
        """Write the files of one table; how many rows there are."""
        root = Path(output.uri)
        days = [{**row, "event_date": row["timestamp"].date()} for row in rows]
        files = write_files(root, output.folder, days, output.partition_by, schema)
        name_files(root, output.folder, files)
        return SparkResult(rows=len(rows))


def _typed(plan: DecodePlan) -> pa.Schema:
    return pa.schema([field for field in TYPED if field.name in own_columns(plan)])


def value_of(schema_id: int) -> bytes:
    """A record's bytes in Confluent's framing; the rest is nobody's business here."""
    return b"\0" + schema_id.to_bytes(4, "big") + b"..."


def _id(value: bytes | None, part: PartPlan) -> int | None:
    if part.framing == "connect":  # the whole value is its schema
        told = {w.digest: w.schema_id for w in part.writers} | {d: i for i, d in part.unfit_digests}
        return told.get(sha256(value or b"").hexdigest())
    return int.from_bytes(value[1:5], "big") if value is not None and value[:1] == b"\0" else None


def _known(part: PartPlan) -> set[int]:
    return {*(w.schema_id for w in part.writers), *part.unknown, *part.foreign, *part.unfit}


def _error(value: bytes | None, part: PartPlan) -> str | None:
    if value is None or _id(value, part) in {w.schema_id for w in part.writers}:
        return None
    if part.framing == "plain":
        return None if part.writers else "type_mismatch"
    classes: Mapping[str, tuple[int, ...]] = {
        "unknown_schema": part.unknown,
        "wrong_subject": part.foreign,
        "type_mismatch": part.unfit,
    }
    return next((name for name, ids in classes.items() if _id(value, part) in ids), "framing")


def _raw_rows(job: DecodeJob) -> list[dict[str, Any]]:
    found = []
    for path in job.raw_files:
        for row in pq.read_table(Path(job.raw_uri, path)).to_pylist():
            place = (row["topic_id"], row["generation"], row["partition"])
            if any(
                place == (r.topic_id, r.generation, r.partition)
                and r.start_offset <= row["offset"] < r.end_offset
                for r in job.plan.ranges
            ):
                found.append(row)
    return found


class DecodedLake:
    """One partition, whose raw rows are landed by `lands`.

    Args:
        folder: For the tables.
        options: delta-rs options of the typed tables, where they are in an object store.
        decode: Keys of the stream file's section `decode`, beside a value in Avro and two tables.
    """

    def __init__(
        self, folder: Path, options: Mapping[str, str] | None = None, **decode: object
    ) -> None:
        self.folder, self.store = folder, StoreState()
        self.options = dict(options or {})
        self.registry, self.spark = FakeRegistry(), FakeDecoder()
        self.decode: dict[str, object] = {
            "value": {"format": "avro", "subject": "orders-value"},
            "table": {"uri": str(folder / "typed")},
            "quarantine": {"uri": str(folder / "bad"), "max_share": 1.0},
            **decode,
        }
        self.maintenance: dict[str, object] = {}
        self.catalog: CatalogPort | None = None
        self.name, self.landed = "orders", 0
        self.topic_id, self.generation = ID, 0
        self.before = NOWHERE
        self.raw = TargetTable(str(folder / "raw"))

    @property
    def ledger(self) -> Ledger:
        """The stream's ledger, as another process would open it."""
        return Ledger(MemoryStore(self.store), self.name)

    def register(
        self, *fields: tuple[str, object], subject: str = "orders-value", record: str = "Order"
    ) -> int:
        """An Avro schema with fields of these names and types; its id."""
        named = [{"name": n, "type": t} for n, t in fields]
        schema = {"type": "record", "name": record, "fields": named}
        return self.registry.register(subject, json.dumps(schema))

    def lands(self, *values: bytes | None) -> None:
        """Rows that are landed and verified, one per value."""
        for value in values:
            self.lands_rows([value])

    def lands_rows(self, values: Iterable[bytes | None]) -> None:
        """The same in as few commits as values."""
        state = self.ledger.update(lambda s: s.with_next_token())
        self.raw.create(self.name, state.control.ledger_id, [])
        for value in values:
            log = {"topic_id": self.topic_id, "generation": self.generation}
            write_deltalake(
                self.raw.uri, raw_rows([self.landed], value=value, **log), mode="append"
            )
            self.landed += 1
        self.covers(self.landed)

    def covers(self, end: int) -> None:
        """The landing's head covers `[0, end)`: fewer after a rewind."""
        table = DeltaTable(self.raw.uri)
        log = PartitionIdentity(self.topic_id, self.generation, 0)
        now = head(
            position(end, topic_id=self.topic_id, generation=self.generation),
            coverage=self.before | {log: one_interval(0, end)},
            table_id=str(table.metadata().id),
            table_version=table.version(),
        )
        self.ledger.update(lambda s: s.with_head(now))

    def begins_anew(self, topic_id: str = ID) -> None:
        """The log was truncated, or the topic was created anew, and somebody decided to go on."""
        self.before = self.ledger.read().head.coverage
        self.generation = self.generation + 1 if topic_id == self.topic_id else 0
        self.topic_id, self.landed = topic_id, 0

    def run(self, run_id: str) -> RunContext:
        """A run's context."""
        file = self.folder / "orders.yaml"
        sections = {
            "stream": self.name,
            "kafka": {"connection": "kafka_default", "topics": ["orders"]},
            "table": {"uri": self.raw.uri},
            "registry": {"connection": "registry_default"},
            "decode": self.decode,
            "maintenance": self.maintenance,
        }
        if self.catalog is not None:
            sections["catalog"] = {"connection": "hive", "name": "raw.orders"}
        file.write_text(yaml.safe_dump(sections))
        stream = read_stream(file)
        assert stream.decode is not None
        return RunContext(
            stream=stream,
            run_id=run_id,
            request=RunRequest(),
            ledger=self.ledger,
            connect=lambda: None,  # type: ignore[arg-type, return-value]
            table=self.raw,
            spark=self.spark,
            typed=TypedTables(
                {
                    name: TargetTable(uri, self.options, TYPED_COORDINATES)
                    for name, uri in stream.decode.addresses.items()
                },
                TargetTable(stream.decode.quarantine.uri, self.options, QUARANTINE_COLUMNS),
            ),
            connect_registry=lambda: self.registry,
            connect_catalog=None
            if self.catalog is None
            else lambda: cast(CatalogPort, self.catalog),
        )

    def decodes(self, run_id: str) -> DecodeRecord | None:
        """What `tideline decode` does."""
        run = self.run(run_id)
        decode_batch(run)
        return run.decoded

    def decodes_again(self, run_id: str) -> DecodedAgain:
        """What `tideline decode --again` does."""
        return decode_again(self.run(run_id))

    def redrives(self, run_id: str) -> Redriven:
        """What `tideline redrive` does."""
        return redrive(self.run(run_id))

    def audits(self) -> TypedAudit:
        """What `tideline audit` finds in the typed tables."""
        found = typed_against_raw(self.run("audit"))
        assert found is not None
        return found

    def typed(self, table: str = "table") -> list[int]:
        """Offsets in the typed table, each as often as it stands there."""
        found = self._open(table).to_pyarrow_table(columns=["offset"])["offset"].to_pylist()
        return sorted(found)

    def plans(self) -> list[str]:
        """The plan of each typed row, by offset."""
        found = self._open("table").to_pyarrow_table(columns=["offset", "decode_plan_id"])
        return [plan for _, plan in sorted(zip(*found.to_pydict().values(), strict=True))]

    def bad(self) -> list[tuple[int, str]]:
        """Offsets in quarantine with their error classes."""
        found = self._open("quarantine").to_pyarrow_table(columns=["offset", "error_class"])
        return sorted(zip(*found.to_pydict().values(), strict=True))

    def versions(self) -> dict[str, int]:
        """The newest version of each typed table, by the last part of its address."""
        found = map(self._open, ("table", "quarantine"))
        return {table.table_uri.rstrip("/").rpartition("/")[2]: table.version() for table in found}

    def _open(self, table: str) -> DeltaTable:
        typed = self.run("look").typed
        assert typed is not None
        uri = typed.by_type.get("" if table == "table" else table, typed.quarantine).uri
        return DeltaTable(uri, storage_options=self.options)
