"""One stream whose runs die: what they leave, who repairs it, and the judgement."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from pathlib import Path

from deltalake import DeltaTable
from kafka import TopicPartition
from kafka.errors import KafkaError

from devstack.process import wait_until
from tests.faults.fault_case import FaultCase
from tests.faults.killable import Killable, until_it_passes
from tests.faults.ledgers import InPostgres
from tests.faults.oracle import Record, assert_exact
from tests.worlds.streams import head, spans, table_rows, table_version
from tideline.errors import Halted
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord
from tideline.operations.questions import dry_run
from tideline.wiring import open_ledger, open_run

SENT = 100
"""Records that wait when the run starts that dies."""


class Crash(FaultCase):
    """A stream of one topic, one of whose runs dies.

    `attempts` counts every run of it that was started, the one that died included; `halts_first`
    is there when a run has halted on the way.
    """

    ledger: str
    database: InPostgres | None = None
    attempts = 0
    said = ""

    def follow(self, partitions: int = 1, **stream: object) -> None:
        """Create the topic and the stream file; a consumer group is told."""
        kafka = {"topics": [self.topic], "commit_group": self.group}
        super().follow(partitions, kafka=kafka, ledger=self.ledger, **stream)
        wait_until(self._can_be_told, "the broker coordinates no groups", 60)

    @property
    def group(self) -> str:
        """The consumer group that the stream tells its positions."""
        return f"{self.topic}-landed"

    @property
    def file(self) -> Path:
        """The stream's file."""
        return self.harness.folder / "orders.yaml"

    def waits(self, partitions: int = 1, **stream: object) -> None:
        """A new stream with records waiting in every partition."""
        self.follow(partitions, **stream)
        for partition in range(partitions):
            self.send(SENT, partition)

    def start(self, run_id: str, spark: object = None, **options: object) -> Killable:
        """`tideline run` in a process of its own."""
        self.attempts += 1
        arguments = ("run", self.file, "--run-id", run_id, "--json")
        folder = Path(tempfile.mkdtemp(prefix="attempt-", dir=self.harness.folder))
        return Killable(spark or self.spark, folder, *arguments, **options)

    def dies(self, place: str, run_id: str = "one", spark: object = None) -> None:
        """A run that is killed at a place; it fails unless the run gets there."""
        with self.start(run_id, spark, point=f"{place}:kill") as dying:
            assert dying.ended() == -signal.SIGKILL, f"{place} was not reached\n{dying.said}"

    def repeat(self, run_id: str = "one", spark: object = None) -> RunRecord:
        """The same run again and again, as long as it may pass; its closed record.

        Raises:
            Halted: It needs a decision; what it said is the verdict.
        """

        def attempt() -> RunRecord:
            self.attempts += 1
            return self.harness.run(self.stream, run_id, spark or self.spark)

        try:
            return until_it_passes(attempt)
        except Halted as error:
            self.verdict, self.said = "halted", error.message
            raise

    def forget(self, records: set[Record]) -> None:
        """Records that the table need not hold: an incident names them, or somebody took them."""
        for record in records:
            self.log.written.pop(record[:3], None)

    def policy(self, kind: str, choice: str) -> None:
        """From now on the stream's runs in this process decide by themselves."""
        policies = self.stream.on_reset.model_copy(update={kind: choice})
        self.stream = self.stream.model_copy(update={"on_reset": policies})

    def rows(self) -> list[tuple[object, ...]]:
        """Every row of the table, with its value; empty where there is no table yet."""
        if not DeltaTable.is_deltatable(self.stream.table.uri):
            return []
        return table_rows(self.stream, "topic_id", "generation", "partition", "offset", "value")

    def version(self) -> int:
        """The table's newest version."""
        return table_version(self.stream)

    def judge_crash(self, point: str, *, lands_more: bool = True) -> None:
        """Every record once, the position behind the last one, and the stream goes on.

        Args:
            point: Where or how something died, for the report.
            lands_more: Whether Spark lands the next records too; otherwise they are planned only.
        """
        assert_exact(self.stream, self.log)
        assert head(self.stream) == self._ends()
        behind = self._ends()[self.topic, 0]
        self.send(7)
        if lands_more:
            record = self.harness.run(self.stream, "goes on", self.spark)
            assert spans(record) == [(0, behind, behind + 7)]
            assert_exact(self.stream, self.log)
            assert head(self.stream) == self._ends() == self._told()
        else:
            assert head(self.stream) == self._told()
            with open_run(self.stream, "plan", RunRequest()) as run:
                (planned,) = dry_run(run).proposal.ranges
            assert (planned.start_offset, planned.end_offset) == (behind, behind + 7)
        state = open_ledger(self.stream).read()
        assert not state.control.incidents
        assert not [lease for lease in state.control.leases if lease.pid == os.getpid()]
        assert not state.runs
        found, findings = self.harness.audit(self.stream)
        assert found.clean, found
        assert not findings
        self.tell(point)

    def tell(self, point: str) -> None:
        """Count what must be 0, put it into the report, and insist."""
        counts = self.counts()
        verdict = self.verdict if self.verdict != "none" else "one copy"
        self.report.tell_crash(point, self.ledger, verdict, self.attempts, counts)
        assert (counts.lost, counts.duplicate, counts.silent) == (0, 0, 0)

    def _ends(self) -> dict[tuple[str, int], int]:
        """Where the topic ends, by the broker."""
        with self.harness.admin() as admin:
            (topic,) = admin.describe_topics([self.topic])
            places = [TopicPartition(self.topic, p["partition_index"]) for p in topic["partitions"]]
            found = admin.list_partition_offsets(dict.fromkeys(places, -1))
        return {(p.topic, p.partition): int(found[p].offset) for p in places}

    def _can_be_told(self) -> bool:
        """A broker that has just started still loads what groups were told."""
        with contextlib.suppress(KafkaError):
            self._told()
            return True
        return False

    def _told(self) -> dict[tuple[str, int], int]:
        """What the consumer group knows."""
        with self.harness.admin() as admin:
            found = admin.list_group_offsets(self.group)[self.group]
        return {(p.topic, p.partition): o.offset for p, o in found.items()}
