"""A Spark in memory: it reads by topic name, and writes files into the attempt's folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.simulation.kafka import ABORTED, OPEN, RECORD, Cluster
from tests.simulation.table import Row, TableState
from tideline.documents import dump, load
from tideline.errors import ServiceAway
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import SparkJob, SparkResult, Unreadable, readable_layers

MOST_FOUND = 2
"""Broken records that one application names."""


@dataclass
class SparkState:
    """What befalls the next applications.

    Args:
        loses: How many of the next reads lose their first record.
        repeats: How many of the next reads write their first record twice.
        fails: How many of the next applications end badly before they write.
    """

    loses: int = 0
    repeats: int = 0
    fails: int = 0


class SimulatedSpark:
    """`SparkPort`.

    Args:
        state: What befalls it.
        cluster: The cluster that its options lead to, asked at every read.
        table: Where its files go.
        tick: Called at each boundary, with a label.
    """

    def __init__(
        self,
        state: SparkState,
        cluster: Callable[[], Cluster],
        table: TableState,
        tick: Callable[[str], None] = lambda label: None,
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._table = table
        self._tick = tick

    def submit(self, job_path: str) -> None:
        """Read the ranges, one file per range that has rows."""
        job = load(SparkJob, Path(job_path).read_bytes(), "job")
        self._tick("spark.started")
        if self._state.fails:
            self._state.fails -= 1
            raise ServiceAway("Spark ended with status 1")
        if broken := self._broken(job):
            self._tick("spark.narrowed")
            result = SparkResult(error="UnreadableRecords", unreadable=broken)
            Path(job.result_path).write_text(dump(result))
            raise ServiceAway("Spark ended with status 1")
        files, rows = [], 0
        for number, planned in enumerate(job.ranges):
            read = self._spoiled(self._read_around(planned, job))
            self._tick("spark.read")
            if read:
                name = f"{job.folder}/part-{number}.parquet"
                self._table.files[name] = read
                files.append(name)
                rows += len(read)
        self._table.manifests[job.folder] = tuple(files)
        self._tick("spark.committed")
        Path(job.result_path).write_text(dump(SparkResult(rows=rows)))
        self._tick("spark.answered")

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
            for layer in readable_layers([planned], job.unreadable)
            for piece in layer
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
