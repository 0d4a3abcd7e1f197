"""One stream under one fault: its producer, its runs, and the judgement at the end."""

from __future__ import annotations

from collections import Counter

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from devstack.harness import StreamHarness
from devstack.process import wait_until
from devstack.spark_apps import InProcessSpark
from tests.faults.oracle import Counts, State, assert_exact, count
from tests.faults.recorder import Recorder
from tests.faults.report import Report
from tests.worlds.streams import spans
from tideline.errors import ResetDetected, TidelineError
from tideline.model.incident import Incident
from tideline.model.run import RunRecord
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

LANDED = 100
"""Records that `lands` puts into the table."""


class FaultCase:
    """A stream of one topic on a real broker.

    Args:
        harness: Names on a broker, and a folder.
        spark: Reads and writes.
        report: Takes the row.

    `log` is the producer's own; `stream` is there once `follow` was called.
    """

    stream: Stream

    def __init__(self, harness: StreamHarness, spark: InProcessSpark, report: Report) -> None:
        self.harness, self.spark, self.report = harness, spark, report
        self.topic = harness.topic()
        self.log = Recorder(harness.broker.bootstrap_servers)
        self.verdict, self.said = "none", ""
        self._runs = 0
        self._well = State({}, Counter())

    def follow(self, partitions: int = 1, config: dict[str, str] | None = None, **stream: object):
        """Create the topic and the stream file."""
        self.harness.create(partitions=partitions, **(config or {}))
        self.stream = self.harness.stream(**stream)

    def send(self, number: int, partition: int = 0, **options: object) -> None:
        """Send records that are all different."""
        self.log.send(self.topic, number, partition, **options)

    def lands(self, number: int = LANDED, **options: object) -> None:
        """Send and land records; what is there then is well."""
        self.send(number, **options)
        self.run()
        assert_exact(self.stream, self.log)
        self.mark()

    def mark(self) -> None:
        """All is well up to here; the fault comes next."""
        self._well = State.of(self.stream)

    def run(self, spark: object = None) -> RunRecord:
        """A run that ends well."""
        record = self._run(spark)
        rows = sum(v.rows for v in record.verified)
        notices = "".join(f"; {n}" for n in record.notices)
        read = spans(record) if record.plan is not None else []
        ranges = ", ".join(f"partition {p} [{start}, {end})" for p, start, end in read)
        self.said = f"{record.status}: {rows} rows of {ranges or 'nothing'}{notices}"
        return record

    def halts(self, kind: str, spark: object = None, run_id: str | None = None) -> Incident:
        """A run that halts with one incident, which says what, where and what to do."""
        positions = State.of(self.stream).positions
        with pytest.raises(ResetDetected) as halted:
            self._run(spark, run_id)
        (incident,) = halted.value.incidents
        assert incident in open_ledger(self.stream).read().control.incidents
        assert State.of(self.stream).positions == positions
        finding = incident.finding
        self.verdict, self.said = finding.kind, halted.value.message
        assert finding.kind == kind, finding
        for told in (incident.incident_id, finding.place, kind, f"Next: {finding.next_step}"):
            assert told in self.said
        assert finding.topic in (None, self.topic)
        return incident

    def fails(
        self, kind: type[TidelineError], spark: object = None, run_id: str | None = None
    ) -> TidelineError:
        """A run that fails without a verdict; no position moved, no incident opened."""
        positions, opened = State.of(self.stream).positions, self.incidents_opened
        with pytest.raises(kind) as failed:
            self._run(spark, run_id)
        assert State.of(self.stream).positions == positions
        assert self.incidents_opened == opened
        self.said = f"{type(failed.value).__name__}: {failed.value.message}"
        return failed.value

    @property
    def run_id(self) -> str:
        """The last run's id."""
        return f"run-{self._runs}"

    @property
    def incidents_opened(self) -> int:
        """How many incidents the ledger has ever had."""
        return open_ledger(self.stream).read().control.incidents_opened

    @property
    def is_untouched(self) -> bool:
        """Whether every position and every row is as it was before the fault."""
        return State.of(self.stream).distance(self._well) == 0

    def assert_exact(self) -> None:
        """The table is exactly the producer's log, and nothing was ever found."""
        assert_exact(self.stream, self.log)
        assert self.incidents_opened == 0

    def judge(self, number: int, fault: str) -> None:
        """Count what must be 0, put it into the report, and insist."""
        counts = self.counts()
        self.report.tell(number, fault, self.verdict, self.said, counts)
        assert (counts.lost, counts.duplicate, counts.silent) == (0, 0, 0)

    def counts(self) -> Counts:
        """What must be 0."""
        return count(self.stream, self.log, self._well)

    def configure(self, **config: str) -> None:
        """Change the topic's settings; underscores stand for dots."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        with self.harness.admin() as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self.topic, settings)])

    def wait_log_start(self, at: int) -> int:
        """Wait until the broker has deleted everything below an offset; the log start then."""
        wait_until(lambda: self._log_start() >= at, f"the log start stays below {at}", 60, 0.5)
        return self._log_start()

    def _log_start(self) -> int:
        place = TopicPartition(self.topic, 0)
        with self.harness.admin() as admin:
            return int(admin.list_partition_offsets({place: -2})[place].offset)

    def _run(self, spark: object, run_id: str | None = None) -> RunRecord:
        self._runs += 1
        self.verdict, self.said = "none", ""
        return self.harness.run(self.stream, run_id or f"run-{self._runs}", spark or self.spark)
