"""A Spark in memory: it reads by topic name, and writes files into the attempt's folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.simulation.current import Changes, CurrentState, Folder
from tests.simulation.kafka import ABORTED, OPEN, RECORD, Cluster
from tests.simulation.table import Row, TableState, is_valueless, key_of, value_of
from tideline.documents import dump, load
from tideline.errors import ServiceAway
from tideline.model.decoding import WriterSchema
from tideline.model.erasures import raw_key_hash, record_hash
from tideline.model.fold_job import FoldJob, FoldResult
from tideline.model.offsets import CoordinateRange, OffsetRange, intersect
from tideline.model.places import Places
from tideline.model.spark_job import (
    DecodeJob,
    DecodeResult,
    SparkJob,
    SparkResult,
    Unreadable,
    readable_groups,
)
from tideline.registry.registry_port import SubjectVersion

MOST_FOUND = 2
TYPES = "abc"
"""Event types; the number of one, from 1, is the id of its schema."""


def id_of(serial: int) -> int:
    """The schema's id in front of a record, where a topic has several event types."""
    return 1 + serial // 3 % len(TYPES)


class SimulatedRegistry:
    """`RegistryPort`: a subject for each event type."""

    def __init__(self, tick: Callable[[str], None]) -> None:
        self._tick = tick

    def subjects_of(self, schema_id: int, subject: str) -> tuple[SubjectVersion, ...]:
        """The one of its type."""
        self._tick("registry.subjects")
        return (SubjectVersion(TYPES[schema_id - 1], 1),)

    def schema(self, schema_id: int, version: SubjectVersion) -> WriterSchema | None:
        """A record of that name."""
        self._tick("registry.schema")
        name = TYPES[schema_id - 1]
        fields = [{"name": "id", "type": "long"}]
        text = json.dumps({"type": "record", "name": name, "fields": fields})
        return WriterSchema(schema_id, text, f"digest-{name}", str(version), (), "avro")

    def latest(self, subject: str) -> tuple[SubjectVersion, WriterSchema]:
        """Nobody asks: records bring ids."""
        raise NotImplementedError


"""Broken records that one application names."""


@dataclass
class SparkState:
    """What befalls the next applications, and which records nobody can decode.

    Args:
        garbled: Records that go into quarantine, by serial.
        loses: How many of the next reads lose their first record.
        repeats: How many of the next reads write their first record twice.
        fails: How many of the next applications end badly before they write.
    """

    loses: int = 0
    repeats: int = 0
    fails: int = 0
    garbled: set[int] = field(default_factory=set)


class SimulatedSpark:
    """`SparkPort`.

    Args:
        state: What befalls it.
        cluster: The cluster that its options lead to, asked at every read.
        table: Where its files go.
        decoded, quarantine: Where those of typed tables go.
        current: Where those of the current table go.
        said: What a typed row says.
        tick: Called at each boundary, with a label.
        typed: The typed tables by event type, where there are several.
    """

    def __init__(
        self,
        state: SparkState,
        cluster: Callable[[], Cluster],
        table: TableState,
        decoded: TableState,
        quarantine: TableState,
        current: CurrentState,
        said: Changes,
        tick: Callable[[str], None] = lambda label: None,
        typed: Mapping[str, TableState] | None = None,
    ) -> None:
        self._typed = {"": decoded} if typed is None else typed
        self._state = state
        self._cluster = cluster
        self._table = table
        self._decoded = decoded
        self._quarantine = quarantine
        self._current = current
        self._said = said
        self._tick = tick

    def submit(self, job_path: str) -> None:
        """Read ranges of Kafka, or decode rows of a version."""
        text = Path(job_path).read_bytes()
        application = json.loads(text).get("application")
        self._start()
        if application is not None:
            self._decode(load(DecodeJob, text, "job"))
        else:
            self._ingest(load(SparkJob, text, "job"))
        self._tick("spark.answered")

    def _start(self) -> None:
        self._tick("spark.started")
        if self._state.fails:
            self._state.fails -= 1
            raise ServiceAway("Spark ended with status 1")

    def _ingest(self, job: SparkJob) -> None:
        """One file per range that has rows."""
        if broken := self._broken(job):
            self._tick("spark.narrowed")
            result = SparkResult(error="UnreadableRecords", unreadable=broken)
            Path(job.result_path).write_text(dump(result))
            raise ServiceAway("Spark ended with status 1")
        files, rows, refused = [], 0, list[CoordinateRange]()
        for number, planned in enumerate(job.ranges):
            found = self._read_around(planned, job)
            of_key = [row for row in found if _is_refused(row, job)]
            refused += (planned.as_coordinates.at(_one(row)) for row in of_key)
            erased = Places.of(job.erased).get(planned.identity, ())
            read = self._spoiled(
                [r for r in found if r not in of_key and not intersect([_one(r)], erased)]
            )
            self._tick("spark.read")
            if read:
                name = f"{job.folder}/part-{number}.parquet"
                self._table.files[name] = read
                files.append(name)
                rows += len(read)
        self._table.manifests[job.folder] = tuple(files)
        self._tick("spark.committed")
        Path(job.result_path).write_text(dump(SparkResult(rows=rows, refused=tuple(refused))))

    def _decode(self, job: DecodeJob) -> None:
        """Each raw row becomes one that holds the same record, in one of both tables."""
        (version,) = map(int, job.raw_files)
        if version < self._table.files_from or version >= len(self._table.versions):
            raise ServiceAway(f"files of version {version} are gone")
        held = self._table.versions[version].rows
        wanted = Places.of(job.plan.ranges)
        raw = [
            row
            for identity, ranges in wanted.items()
            for row in held.get(identity, ())
            if any(r.start_offset <= row.offset < r.end_offset for r in ranges)
        ]
        self._tick("spark.read")
        if job.types and (new := self._new_ids(raw, job)) and not job.is_last_round:
            Path(job.result_path).write_text(dump(DecodeResult(new_ids={"value": new})))
            return
        by_type, bad = self._routed(raw, job)
        good = [row for rows in by_type.values() for row in rows]
        outputs = [
            (self._typed[name], job.types[name].output if job.types else job.decoded, rows)
            for name, rows in by_type.items()
        ]
        results = []
        for table, output, rows in (*outputs, (self._quarantine, job.quarantine, bad)):
            written = self._spoiled(rows)
            name = f"{output.folder}/part-0.parquet"
            table.files |= {name: written} if written else {}
            table.manifests[output.folder] = (name,) if written else ()
            results.append(SparkResult(rows=len(written)))
            self._tick("spark.committed")
        others = sum(row.serial not in self._state.garbled for row in bad)
        classes = {"malformed": len(bad) - others, "other_type": others}
        *typed, quarantined = results
        answer = DecodeResult(
            SparkResult(rows=sum(result.rows for result in typed)),
            quarantined,
            raw_rows=len(raw),
            tombstones=sum(_is_dropped(row, job) for row in raw),
            classes={name: count for name, count in classes.items() if count},
            by_type=dict(zip(by_type, typed, strict=True)) if job.types else {},
        )
        if job.plan.is_again:  # as if another rule had made other rows
            answer = replace(answer, changed=len(good), quarantine_changed=len(bad))
        Path(job.result_path).write_text(dump(answer))

    def _new_ids(self, raw: list[Row], job: DecodeJob) -> tuple[int, ...]:
        """Ids that the plan does not name."""
        (part,) = job.plan.framed
        named = {*part.claimed, *part.unknown, *part.foreign}
        return tuple(sorted({id_of(row.serial) for row in raw} - named))

    def _routed(self, raw: list[Row], job: DecodeJob) -> tuple[dict[str, list[Row]], list[Row]]:
        """The rows of each typed table, and those of none."""
        raw = [row for row in raw if not _is_dropped(row, job)]
        good = [row for row in raw if row.serial not in self._state.garbled]
        bad = [row for row in raw if row.serial in self._state.garbled]
        if not job.types:
            return {"": good}, bad
        of_id = {n: p.type for p in job.plan.parts if p.type in job.types for n in p.claimed}
        by_type: dict[str, list[Row]] = {name: [] for name in job.types}
        for row in good:
            by_type.get(of_id.get(id_of(row.serial), ""), bad).append(row)
        return by_type, bad

    def fold(self, job: FoldJob) -> FoldResult:
        """The last changes of keys, into the files of the touched buckets."""
        self._start()
        result, files = Folder(job, self._decoded, self._current, self._said).fold()
        self._tick("spark.read")
        written: dict[str, Any] = {**files}
        self._current.files |= written
        self._current.manifests[job.current.folder] = tuple(written)
        self._tick("spark.committed")
        self._tick("spark.answered")
        return result

    def _broken(self, job: SparkJob) -> tuple[Unreadable, ...]:
        """The first records that cannot be read; a later application finds the rest."""
        topics = self._cluster().topics
        found = [
            Unreadable(replace(at, start_offset=row.offset, end_offset=row.offset + 1), "broken")
            for at in job.ranges
            for row in self._read_around(at, job)
            if topics[at.topic].logs[at.partition].entries[row.offset].is_broken
        ]
        return tuple(found[:MOST_FOUND])

    def _read_around(self, planned: CoordinateRange, job: SparkJob) -> list[Row]:
        """The rows of a range, without the offsets whose loss is accepted."""
        return [
            row
            for group in readable_groups([planned], job.unreadable)
            for piece in group
            for row in self._read(piece, job.isolation_level)
        ]

    def _read(self, planned: CoordinateRange, isolation_level: str) -> list[Row]:
        cluster = self._cluster()
        topic = cluster.topics.get(planned.topic)
        if topic is None or planned.topic in cluster.refused:
            raise ServiceAway(f"{planned}: Spark cannot read the topic")
        if planned.partition >= len(topic.logs):
            raise ServiceAway(f"{planned}: Spark knows no such partition")
        log = topic.logs[planned.partition]
        if planned.start_offset < log.log_start or planned.end_offset > log.end:
            raise ServiceAway(f"{planned}: out of range, and failOnDataLoss")
        wanted = (RECORD,) if isolation_level == "read_committed" else (RECORD, OPEN, ABORTED)
        return [
            Row(planned.identity, offset, log.entries[offset].serial)
            for offset in range(planned.start_offset, planned.end_offset)
            if log.entries[offset].kind in wanted
        ]

    def _spoiled(self, read: list[Row]) -> tuple[Row, ...]:
        if self._state.loses and read:
            self._state.loses -= 1
            read = read[1:]
        if self._state.repeats and read:
            self._state.repeats -= 1
            read = [read[0], *read]
        return tuple(read)


def _is_dropped(row: Row, job: DecodeJob) -> bool:
    return job.plan.tombstones == "drop" and is_valueless(row.serial)


def _one(row: Row) -> OffsetRange:
    return OffsetRange(row.offset, row.offset + 1)


def _is_refused(row: Row, job: SparkJob) -> bool:
    """Whether a record is left out by its key, and not by its coordinates."""
    key, value = key_of(row.serial), value_of(row.serial)
    told = {raw_key_hash(job.secret, key), record_hash(job.secret, key, value)}
    if is_valueless(row.serial):  # where the stream drops such records
        told.add(record_hash(job.secret, key, None))
    doubted = Places.of(job.doubted).get(row.identity, ())
    is_doubted = bool(intersect([_one(row)], doubted))
    return not told.isdisjoint(job.future) or (is_doubted and not told.isdisjoint(job.hashes))
