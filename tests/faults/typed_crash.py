"""A stream with typed tables whose runs die: three tables, and where each record has to be."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from pathlib import Path

from deltalake import DeltaTable

from tests.faults.killable import Killable, until_it_passes
from tests.faults.oracle import Counts
from tests.faults.report import Report
from tests.worlds.streams import is_clean, table_rows
from tests.worlds.typed_streams import V1, V2, Typed, avro
from tideline.model.decoding import Redriven
from tideline.model.maintenance import kind_of
from tideline.model.request import RunRequest
from tideline.operations.redrive import redrive
from tideline.wiring import open_ledger, open_run


def _has(uri: str, column: str) -> bool:
    """Whether there is a table with that column: without it no record of its type has come."""
    if not DeltaTable.is_deltatable(uri):
        return False
    return column in [field.name for field in DeltaTable(uri).schema().fields]


class TypedCrash(Typed):
    """A stream of two partitions, one of whose runs dies.

    `expected` says by partition and offset which table has to hold a record, and how: a row's
    fields, or an error class. `attempts` counts every run that was started.
    """

    def __init__(self, harness: object, registry: object, spark: object, report: Report) -> None:
        super().__init__(harness, registry, spark, "orders", tombstones="keep")
        self.section["quarantine"]["max_share"] = 1.0
        self.report = report
        self.expected: dict[tuple[int, int], object] = {}
        self.attempts, self.knows_both = 0, False
        self.dropped: list[tuple[int, int]] = []
        self.first, self.second = ({**s, "doc": self.subject} for s in (V1, V2))
        self.first_id = self.register(self.first)
        self.second_id = self.first_id + 1  # the registry gives them out in turn

    def brings(self, partition: int = 0) -> None:
        """Two records, a tombstone, one that is none, one whose schema nobody knows at first."""
        at = sum(1 for p, _ in self.expected if p == partition)
        rows = [
            avro(self.first, {"id": at, "note": "a"}, self.first_id),
            avro(self.first, {"id": at + 1, "note": "b"}, self.first_id),
            None,
            b"nonsense",
            avro(self.second, {"id": at + 4, "total": 0.5}, self.second_id),
        ]
        last = at + 4 if self.knows_both else "unknown_schema"
        places = [at, at + 1, None, "framing", last]
        for number, place in enumerate(places):
            self.expected[partition, at + number] = place
        self.send_bytes(*rows, partition=partition)

    def knows_the_second(self) -> None:
        """The missing schema is registered: a redrive can move its records."""
        assert self.register(self.second) == self.second_id
        self.knows_both = True
        self.expected = {
            (p, o): o if place == "unknown_schema" else place
            for (p, o), place in self.expected.items()
        }

    def start(self, command: str, run_id: str, **options: object) -> Killable:
        """A command in a process of its own, with Spark in this one."""
        self.attempts += 1
        file = self.harness.folder / "orders.yaml"
        assert self.stream  # its file is written
        folder = Path(tempfile.mkdtemp(prefix="attempt-", dir=self.harness.folder))
        arguments = (command, file, "--run-id", run_id, "--json")
        return Killable(self.spark, folder, *arguments, **options)

    def dies(self, place: str, command: str = "run", run_id: str = "one") -> None:
        """A command that is killed at a place; it fails unless it gets there."""
        with self.start(command, run_id, point=f"{place}:kill") as dying:
            assert dying.ended() == -signal.SIGKILL, f"{place} was not reached\n{dying.said}"

    def repeat(self, run_id: str = "one") -> None:
        """The same run again and again, as long as it may pass."""

        def attempt() -> None:
            self.attempts += 1
            self.run(run_id)

        until_it_passes(attempt)

    def redrive(self, run_id: str) -> Redriven:
        """Quarantined records are decoded again."""
        self.attempts += 1
        with open_run(self.stream, run_id, RunRequest(), self.spark) as run:
            return redrive(run)

    def places(self) -> Counter[tuple[int, int, object]]:
        """Partition, offset and place of every row in all tables; empty without tables."""
        found: Counter[tuple[int, int, object]] = Counter()
        for table, uri in self.tables.items():
            column = {"decoded": "id", "quarantine": "error_class"}.get(kind_of(table))
            if column is not None and _has(uri, column):
                columns = ["partition", "offset", column]
                rows = DeltaTable(uri).to_pyarrow_table(columns=columns).to_pydict()
                for partition, offset, value in zip(*rows.values(), strict=True):
                    found[partition, offset, self.place(table, value)] += 1
        return found

    def place(self, table: str, value: object) -> object:
        """How `expected` names a row of a table."""
        return value

    def judge(self, point: str) -> None:
        """Every record is in one table, once; ledger and audit agree, and the stream goes on."""
        self._exact()
        self.brings(1)
        self.repeat("goes on")
        self._exact()
        found, wanted = self.places(), self._wanted()
        lost, copies = (wanted - found).total(), (found - wanted).total()
        self.report.tell_crash(point, "delta", "one copy", self.attempts, Counts(lost, copies, 0))

    def _wanted(self) -> Counter[tuple[int, int, object]]:
        return Counter((p, o, place) for (p, o), place in self.expected.items())

    def _exact(self) -> None:
        found, wanted = self.places(), self._wanted()
        assert found == wanted, (wanted - found, found - wanted)
        raw = table_rows(self.stream, "partition", "offset")
        assert raw == sorted((*self.expected, *self.dropped))
        state = open_ledger(self.stream).read()
        assert state.decoding.open is None
        assert state.decoding.coverage == state.head.coverage
        assert not [lease for lease in state.control.leases if lease.pid == os.getpid()]
        assert is_clean(self.harness, self.stream)


class TypesCrash(TypedCrash):
    """The same with three event types, each with a table; a schema of the last is missing at first.

    A tombstone is in no table, and is listed in `dropped`.
    """

    def __init__(self, harness: object, registry: object, spark: object, report: Report) -> None:
        super().__init__(harness, registry, spark, report)
        names = ("first", "third", "second")
        subjects = {name: f"{self.subject}-{name}" for name in names}
        types = [{"type": name, "subject": subject} for name, subject in subjects.items()]
        self.section["value"] = {"format": "avro", "types": types}
        self.section["tombstones"] = "drop"
        self.third = {**V1, "doc": f"{self.subject} of a third type"}
        self.subject = subjects["first"]
        assert self.register(self.first) == self.first_id
        self.subject = subjects["third"]
        self.third_id = self.register(self.third)
        self.subject, self.second_id = subjects["second"], self.third_id + 1

    def brings(self, partition: int = 0) -> None:
        """A record of each type, a tombstone, one that is none."""
        at = sum(1 for p, _ in (*self.expected, *self.dropped) if p == partition)
        rows = [
            avro(self.first, {"id": at, "note": "a"}, self.first_id),
            avro(self.third, {"id": at + 1, "note": "b"}, self.third_id),
            None,
            b"nonsense",
            avro(self.second, {"id": at + 4, "total": 0.5}, self.second_id),
        ]
        last = ("second", at + 4) if self.knows_both else "unknown_schema"
        self.dropped.append((partition, at + 2))
        for number, place in (
            (0, ("first", at)),
            (1, ("third", at + 1)),
            (3, "framing"),
            (4, last),
        ):
            self.expected[partition, at + number] = place
        self.send_bytes(*rows, partition=partition)

    def knows_the_second(self) -> None:
        """The missing schema is registered: a redrive can move its records."""
        super().knows_the_second()
        self.expected = {
            (p, o): ("second", place) if isinstance(place, int) else place
            for (p, o), place in self.expected.items()
        }

    def place(self, table: str, value: object) -> object:
        """The type and the id; or the error class."""
        return value if table == "quarantine" else (table.partition(":")[2], value)
