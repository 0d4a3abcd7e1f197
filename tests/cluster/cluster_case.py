"""A stream in an object store whose runs are processes with a Spark cluster, and its oracle."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from devstack.command_line import finished, tideline
from devstack.harness import StreamHarness
from devstack.object_store import ObjectStore
from devstack.process import wait_until
from devstack.sample import value_hash
from tests.cluster.installed import Installed
from tests.faults.recorder import Record, Recorder

BUCKET = "lake"
BUSY = 4
"""Exit status of a run that may be tried again."""
STARTED: list[subprocess.Popen[str]] = []
"""Commands of the test; what is left of them ends with it."""
SLOW = {"max_poll_records": "20"}
"""Kafka properties with which some ten thousand records take a task seconds."""


class ClusterCase:
    """One stream, `orders`.

    Args:
        harness: Names on a broker, and a folder for the stream's file.
        store: Has the bucket `BUCKET`.
        installed: What the runs are started from.
        connection: Spark's, of type `spark`.
        variables: More ones of the runs' processes.
    """

    def __init__(
        self,
        harness: StreamHarness,
        store: ObjectStore,
        installed: Installed,
        connection: Mapping[str, object],
        variables: Mapping[str, str],
    ) -> None:
        self.harness, self.store, self.installed = harness, store, installed
        self.log = Recorder(harness.broker.bootstrap_servers)
        self.topic = harness.topic()
        self.uri = self.address("orders")
        self.refused = 0
        self._variables = {
            **installed.variables,
            **variables,
            "AIRFLOW_CONN_STORE": json.dumps(store.connection()),
            "AIRFLOW_CONN_CLUSTER": json.dumps(connection),
        }

    def address(self, table: str) -> str:
        """Of a table in the store."""
        return f"s3a://{BUCKET}/{self.harness.name}/{table}"

    def follow(self, partitions: int = 2, count: int = 100, **changes: Any) -> None:
        """Create topic and stream file, and send so many records to each partition."""
        self.harness.create(partitions=partitions, **{"retention.ms": "-1"})
        self.file = self.harness.stream_file(
            table={"uri": self.uri, "connection": "store"},
            **{"spark": {"connection": "cluster"}, **changes},
        )
        self.send(partitions, count)

    def send(self, partitions: int, count: int) -> None:
        """Send so many records to each of the first partitions."""
        for partition in range(partitions):
            self.log.send(self.topic, count, partition)

    def start(
        self, *arguments: object, settings: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """`tideline`; the stream's file comes behind the command.

        Args:
            arguments: The command, and its options.
            settings: More variables.
        """
        command, *options = arguments
        env = {**self._variables, **(settings or {})}
        process = tideline(command, self.file, *options, "--json", env=env, cwd="/")
        STARTED.append(process)
        return process

    def run(
        self, run_id: str, *options: object, settings: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """`tideline run`, to its good end; what it answers."""
        return self.ends_well(self.start("run", "--run-id", run_id, *options, settings=settings))

    def at_once(self, *commands: tuple[object, ...]) -> list[dict[str, Any]]:
        """What several commands answer that are started together.

        Each is given again after a pause while another one has the lease that it needs, as Airflow
        does with a task. `refused` says how often that was.
        """
        with ThreadPoolExecutor(len(commands)) as pool:
            return list(pool.map(self._until_free, commands))

    def _until_free(self, command: tuple[object, ...]) -> dict[str, Any]:
        answers: list[dict[str, Any]] = []

        def has_answered() -> bool:
            status, answer, errors = finished(self.start(*command), 500)
            if status == BUSY and "lease is held" in errors:
                self.refused += 1
                return False
            assert status == 0, errors[-6000:]
            answers.append(answer)
            return True

        wait_until(has_answered, f"{command} is refused", 600, every_seconds=5)
        return answers[0]

    def ends_well(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """The answer of a run that must end with status 0."""
        status, answer, errors = finished(process, 500)
        assert status == 0, errors[-6000:]
        assert isinstance(answer, dict)
        return answer

    def table(self, name: str = "orders") -> DeltaTable:
        """A table, by delta-rs."""
        return DeltaTable(self.address(name), storage_options=self.store.options())

    def rows(self) -> Counter[Record]:
        """Every row, with its copies."""
        return self.hashed(self.read("orders", "value"))

    def read(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Topic id, partition, offset and the columns of each row of a table."""
        wanted = ["topic_id", "partition", "offset", *columns]
        found = self.table(table).to_pyarrow_table(columns=wanted).to_pydict()
        return list(zip(*(found[column] for column in wanted), strict=True))

    @staticmethod
    def hashed(rows: Iterable[tuple[Any, ...]]) -> Counter[Record]:
        """Rows whose last column is the value, as the producer's log has them."""
        return Counter((*place, value_hash(value)) for *place, value in rows)  # type: ignore[misc]

    def judge(self, what: str, rows: Counter[Record] | None = None) -> None:
        """Every record that was produced is among the rows once, and nothing else.

        Args:
            what: For the report.
            rows: Those of the table unless given.
        """
        rows, produced = rows or self.rows(), self.log.acknowledged
        lost, foreign = len(produced - set(rows)), len(set(rows) - produced)
        copies = rows.total() - len(rows)
        print(f"\noracle: {what}: {len(produced)} produced, {rows.total()} rows, {lost} lost,"
              f" {copies} twice, {foreign} foreign")  # fmt: skip
        assert (lost, copies, foreign) == (0, 0, 0)
        audit = self.ends_well(self.start("audit"))
        assert audit["clean"], audit

    def objects(self, pattern: str = "*", table: str = "orders") -> dict[str, str]:
        """What a table's folder in the bucket holds: digests by path."""
        folder = self.store.folder / "objects" / BUCKET / self.harness.name / table
        return {
            str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.rglob(pattern))
            if file.is_file()
        }

    def added(self) -> dict[str, str]:
        """The table's data files: digests by path."""
        paths = pa.table(self.table().get_add_actions(flatten=True))["path"].to_pylist()
        held = self.objects()
        return {path: held[path] for path in map(unquote, paths)}

    def wait_for_data(self, process: subprocess.Popen[str]) -> None:
        """Wait until an attempt has written a data file, and its run goes on."""
        self.wait_while(
            process,
            lambda: any("landed-" in path for path in self.objects("part-*")),
            "no task has written its file",
        )

    @staticmethod
    def wait_while(
        process: subprocess.Popen[str], condition: Callable[[], bool], what: str
    ) -> None:
        """Wait until a condition holds while a run goes on; arguments as of `wait_until`."""

        def holds() -> bool:
            if process.poll() is not None:
                raise AssertionError(process.communicate()[1][-6000:])
            return condition()

        wait_until(holds, what, 900, 0.05)
