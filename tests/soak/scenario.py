"""What happens in a soak: producers, runs, clears, backfills, rewinds, crashes, broker faults."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka import TopicPartition
from sqlalchemy.engine import URL

from devstack.broker import Broker
from devstack.command_line import tideline
from devstack.harness import StreamHarness
from devstack.process import wait_until
from devstack.spark_apps import InProcessSpark
from tests.faults.recorder import Recorder
from tests.soak.documents import SCHEMA, Documents
from tests.worlds.ledgers import connect, create_tables
from tests.worlds.streams import decide
from tideline.errors import (
    BadInput,
    ReplayUnavailable,
    ResetDetected,
    ServiceAway,
    TidelineError,
    Transient,
    WindowUnavailable,
)
from tideline.failpoints import DECODE_PLACES, PLACES
from tideline.model.request import RunRequest, read_form
from tideline.model.run import RunRecord
from tideline.operations.questions import audit_stream
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.run_batch import decode_batch, run_batch
from tideline.wiring import open_ledger, open_run

ACTIONS = {
    "plain": 6,
    "burst": 2,
    "tombstones": 1,
    "transactions": 3,
    "open_transaction": 1,
    "live": 8,
    "clear": 4,
    "backfill_ranges": 2,
    "backfill_window": 2,
    "two_lanes": 2,
    "crash": 2,
    "zombie": 1,
    "wake": 1,
    "kill_broker": 1,
    "freeze_broker": 1,
    "expire_landed": 1,
    "lose_unread": 1,
    "grow": 0.3,
    "rewind": 1,
}
"""What may happen, and how often beside the rest."""
_LEASE_SECONDS = "4"
_PARTITIONS = 3


class Unexplained(AssertionError):
    """Something was said or done that nothing in the scenario explains."""


class Scenario:
    """One stream of two topics, a broker, Spark, and a random sequence of actions.

    Args:
        folder: Holds everything.
        seed: Decides what happens; when, the machine does.
        ledger: The stream's kind of ledger.
    """

    def __init__(self, folder: Path, seed: int, ledger: str) -> None:
        self.random = random.Random(seed)
        self.folder, self.ledger_kind = folder, ledger
        self.broker = Broker(folder / "kafka")
        self.spark = InProcessSpark()
        self.partitions = {"plain": _PARTITIONS, "transactional": 1}
        self.requests: dict[str, RunRequest] = {}
        self.zombies: list[subprocess.Popen[str]] = []
        self.expired = False
        self.lost_unread = False
        self._open: list[ExitStack] = []
        self._runs = 0

    def begin(self) -> None:
        """Start what is needed, and land something."""
        os.environ["TIDELINE_LEASE_SECONDS"] = _LEASE_SECONDS
        self.broker.start()
        self.harness = StreamHarness(self.broker, self.folder, "soak")
        self.log: Recorder = Documents(self.broker.bootstrap_servers)
        schema = self.folder / "schema.json"
        schema.write_text(SCHEMA)
        for suffix, count in self.partitions.items():
            self.harness.create(suffix, partitions=count)
        self.stream = self.harness.stream(
            ("plain", "transactional"),
            limits={"max_records_per_run": 3000, "max_records_per_partition": 1500},
            on_incident=self.random.choice(["halt", "proceed"]),
            patience_seconds=5,
            decode={
                "value": {"format": "json", "schema": str(schema)},
                "quarantine": {"max_share": 1.0},
            },
            **self.ledger_settings(),
        )
        self.do_plain()
        self.do_live()

    def ledger_settings(self) -> dict[str, Any]:
        """The stream file's lines about the ledger."""
        if self.ledger_kind == "airflow":
            connect(create_tables(URL.create("sqlite", database=f"{self.folder}/ledgers.db")))
        return {"ledger": self.ledger_kind}

    def end(self) -> None:
        """Stop everything that was started."""
        for zombie in self.zombies:
            os.killpg(zombie.pid, signal.SIGKILL)
            zombie.communicate()
        for transaction in self._open:
            transaction.close()
        self.spark.stop()
        self.broker.stop()

    def next_action(self) -> str:
        """The next action's name."""
        (name,) = self.random.choices(list(ACTIONS), weights=list(ACTIONS.values()))
        return name

    def act(self, name: str) -> str:
        """Do it; what came of it."""
        action: Callable[[], str] = getattr(self, f"do_{name}")
        return action()

    # Producers

    def do_plain(self) -> str:
        """A few records to one partition; partition 0 gets most."""
        partition = min(self.random.randrange(6), self.partitions["plain"] - 1)
        partition = 0 if self.random.random() < 0.4 else partition
        count = self.random.randrange(1, 400)
        self.log.send(self.topic("plain"), count, partition, keys=["a", "b"])
        return f"{count} records to partition {partition}"

    def do_burst(self) -> str:
        """More than a run may take."""
        count = self.random.randrange(2000, 5000)
        self.log.send(self.topic("plain"), count, self.random.randrange(_PARTITIONS))
        return f"{count} records"

    def do_tombstones(self) -> str:
        """Records without a value."""
        count = self.random.randrange(1, 50)
        self.log.send_tombstones(self.topic("plain"), count, self.random.randrange(_PARTITIONS))
        return f"{count} tombstones"

    def do_transactions(self) -> str:
        """Some commit, some abort."""
        transactions = [
            (self.random.randrange(1, 60), self.random.random() < 0.7)
            for _ in range(self.random.randrange(1, 5))
        ]
        self.log.transact(self.topic("transactional"), *transactions)
        return str(transactions)

    def do_open_transaction(self) -> str:
        """One that stays open while other things happen; the next time it is committed."""
        if self._open:
            self._open.pop().close()
            return "committed"
        held = ExitStack()
        held.enter_context(self.log.open_transaction(self.topic("transactional"), 20))
        self._open.append(held)
        return "20 records wait"

    # Runs

    def do_live(self) -> str:
        """A scheduled run; people have looked at the incidents before it."""
        self.decide_open()
        return self.attempt(self.new_run(RunRequest()))

    def do_clear(self) -> str:
        """Any run that was ever started, again."""
        run_id = self.random.choice(list(self.requests))
        return f"{run_id}: {self.attempt(run_id)}"

    def do_backfill_ranges(self) -> str:
        """Named offsets of one partition, landed before or not."""
        suffix = self.random.choice(list(self.partitions))
        partition = self.random.randrange(self.partitions[suffix])
        start, end = self.bounds(suffix, partition)
        if end - start < 2:
            return "nothing there"
        first = self.random.randrange(start, end)
        last = min(end, first + self.random.randrange(1, 800))
        named = {"topic": self.topic(suffix), "partition": partition}
        form = {"ranges": [{**named, "start_offset": first, "end_offset": last}]}
        return f"{suffix}-{partition} [{first}, {last}): {self.attempt(self.new_form(form))}"

    def do_backfill_window(self) -> str:
        """A minute or two of the past."""
        end = datetime.now(UTC) - timedelta(seconds=self.random.randrange(1, 120))
        start = end - timedelta(seconds=self.random.randrange(1, 120))
        form = {"from": start.isoformat(), "to": end.isoformat()}
        return self.attempt(self.new_form(form))

    def do_two_lanes(self) -> str:
        """A live run and a backfill at the same time."""
        said: dict[str, str] = {}

        def backfill() -> None:
            try:
                said["backfill"] = self.do_backfill_window()
            except BaseException as error:
                said["failed"] = repr(error)

        beside = threading.Thread(target=backfill)
        beside.start()
        live = self.do_live()
        beside.join()
        if "failed" in said:
            raise Unexplained(said["failed"])
        return f"live: {live}; backfill: {said['backfill']}"

    def do_rewind(self) -> str:
        """Back by up to three runs; what Kafka can no longer give back is refused."""
        closed = [r.run_id for r in open_ledger(self.stream).closed_runs() if r.status == "done"]
        target = self.random.choice(closed[-4:])
        asked = RewindRequest(target, "soak", "soak")
        try:
            with open_run(self.stream, "rewind", RunRequest(), self.spark) as run:
                done = rewind_stream(run, asked)
        except BadInput as error:
            return f"to {target}: {error.message}"
        except TidelineError as error:
            return f"to {target}: {self.explained(error)}"
        undone = "nothing" if done is None else f"{len(done.undone_runs)} runs, {done.rows} rows"
        return f"to {target}: undone: {undone}"

    # Crashes

    def do_crash(self) -> str:
        """A process of its own, killed at a step's boundary; clears and later runs meet it."""
        self.do_plain()
        place = self.random.choice([*PLACES, *DECODE_PLACES])
        run_id = self.new_run(RunRequest())
        process = self.start(run_id, f"{place}:kill")
        process.communicate(timeout=180)
        return f"{run_id} at {place}: exit {process.returncode}"

    def do_zombie(self) -> str:
        """A process that stops at a boundary, until it is woken."""
        if self.zombies:
            return self.do_wake()
        self.do_plain()
        places = (p for p in PLACES if p.startswith(("ingest", "verify")))
        place = self.random.choice([*places, *DECODE_PLACES])
        run_id = self.new_run(RunRequest())
        process = self.start(run_id, f"{place}:stop")
        try:
            wait_until(
                lambda: process.poll() is not None or _is_stopped(process.pid),
                f"{run_id} neither stops at {place} nor ends",
                180,
            )
        except ServiceAway as error:
            raise Unexplained(error.message) from error
        if process.poll() is None:
            self.zombies.append(process)
        return f"{run_id} at {place}: {'stopped' if self.zombies else 'ended before it'}"

    def do_wake(self) -> str:
        """A stopped process goes on where it stood, whatever has happened meanwhile."""
        if not self.zombies:
            return "none"
        process = self.zombies.pop()
        os.killpg(process.pid, signal.SIGCONT)
        _, errors = process.communicate(timeout=180)
        if process.returncode not in (0, 3, 4):
            raise Unexplained(f"a woken run ended with {process.returncode}: {errors[-2000:]}")
        return f"exit {process.returncode}"

    def do_kill_broker(self) -> str:
        """SIGKILL in the middle of a run; it is started again meanwhile."""
        return self.during_a_run(self._restart_broker)

    def do_freeze_broker(self) -> str:
        """The broker does not answer for a few seconds of a run."""
        return self.during_a_run(self._pause_broker)

    # The log

    def do_expire_landed(self) -> str:
        """Retention takes what is in the table."""
        suffix = self.random.choice(list(self.partitions))
        partition = self.random.randrange(self.partitions[suffix])
        start, _ = self.bounds(suffix, partition)
        landed = self.position(suffix, partition)
        if landed <= start:
            return "nothing landed"
        before = self.random.randrange(start, landed) + 1
        self.harness.delete_records(before, suffix, partition)
        self.expired = True
        return f"{suffix}-{partition} below {before}"

    def do_lose_unread(self) -> str:
        """Retention takes what nobody has read: the next run must halt and name it."""
        partition = self.random.randrange(_PARTITIONS)
        self.log.send(self.topic("plain"), 50, partition)
        _, end = self.bounds("plain", partition)
        self.harness.delete_records(end - 10, "plain", partition)
        self.expired = self.lost_unread = True
        return f"plain-{partition} below {end - 10}"

    def do_grow(self) -> str:
        """One more partition."""
        self.partitions["plain"] += 1
        with self.harness.admin() as admin:
            admin.create_partitions({self.topic("plain"): self.partitions["plain"]})
        return f"{self.partitions['plain']} partitions"

    # Helpers

    def topic(self, suffix: str) -> str:
        """A topic's name."""
        return self.harness.topic(suffix)

    def new_run(self, request: RunRequest) -> str:
        """A run id for a request."""
        self._runs += 1
        run_id = f"{request.lane}-{self._runs}"
        self.requests[run_id] = request
        return run_id

    def new_form(self, form: dict[str, Any]) -> str:
        """A run id for a trigger's form."""
        return self.new_run(read_form(form, datetime.now(UTC)))

    def attempt(self, run_id: str) -> str:
        """A run in this process; what it said, if the scenario explains it."""
        request = self.requests[run_id]
        try:
            with open_run(self.stream, run_id, request, self.spark) as run:
                record = run_batch(run)
                decode_batch(run)
        except TidelineError as error:
            return self.explained(error)
        rows = sum(v.rows for v in record.verified)
        return f"{record.status} {rows} rows" if rows else record.status

    def explained(self, error: TidelineError) -> str:
        """What an error said; a halt is decided upon at once.

        Raises:
            Unexplained: Nothing in the scenario calls for it.
        """
        text = f"{type(error).__name__}: {error.message}"
        if isinstance(error, Transient):
            return text
        if isinstance(error, ReplayUnavailable | WindowUnavailable) and self.expired:
            return text
        if isinstance(error, ResetDetected) and self.lost_unread:
            if any(incident.finding.kind != "retention_loss" for incident in error.incidents):
                raise Unexplained(text) from error
            self.decide_open()
            return f"decided: {text}"
        raise Unexplained(text) from error

    def decide_open(self) -> None:
        """Decide about what is open: a run in a process of its own may have halted, and nobody saw.

        Raises:
            Unexplained: Nothing in the scenario calls for such an incident.
        """
        for incident in open_ledger(self.stream).read().control.incidents:
            if incident.finding.kind != "retention_loss" or not self.lost_unread:
                raise Unexplained(str(incident.finding))
            if incident.decision is None:
                decide(self.stream, "accept_loss", incident.incident_id)

    def start(self, run_id: str, failpoint: str) -> subprocess.Popen[str]:
        """`tideline run` in a process of its own."""
        path = self.folder / "orders.yaml"
        env = {"TIDELINE_FAILPOINT": failpoint}
        return tideline("run", path, "--run-id", run_id, env=env)

    def bounds(self, suffix: str, partition: int) -> tuple[int, int]:
        """Log start, and the end that a reader of committed records may reach."""
        place = TopicPartition(self.topic(suffix), partition)
        with self.harness.admin() as admin:
            start = admin.list_partition_offsets({place: -2})[place].offset
            end = admin.list_partition_offsets({place: -1}, "read_committed")[place].offset
        return int(start), int(end)

    def position(self, suffix: str, partition: int) -> int:
        """The live lane's next offset."""
        for p in open_ledger(self.stream).read().head.positions:
            if p.topic_partition == (self.topic(suffix), partition):
                return p.next_offset
        return 0

    def during_a_run(self, fault: Callable[[], None]) -> str:
        """Do something to the broker while a live run is at work."""
        delay = self.random.uniform(0.2, 3)
        timer = threading.Timer(delay, fault)
        timer.start()
        outcome = self.do_live()
        timer.join()
        return f"after {delay:.1f} s: {outcome}"

    def _restart_broker(self) -> None:
        assert self.broker.server is not None
        self.broker.server.signal(signal.SIGKILL)
        self.broker.server.stop()
        self.broker.start()

    def _pause_broker(self) -> None:
        assert self.broker.server is not None
        self.broker.server.signal(signal.SIGSTOP)
        time.sleep(4)  # the fault itself: nothing is waited for
        self.broker.server.signal(signal.SIGCONT)

    def drain(self) -> str:
        """Let everything come to rest: whoever waits goes on, and runs are made until none is left.

        Raises:
            Unexplained: It does not come to rest.
        """
        while self._open:
            self.do_open_transaction()
        while self.zombies:
            self.do_wake()
        idle = 0
        refused: set[str] = set()  # what they would read has expired; nobody can finish them
        for count in range(60):
            waiting = [r for r in self._left_open() if r.run_id not in refused]
            if idle == 2 and not waiting:
                return f"at rest after {count} runs; refused for good: {sorted(refused) or 'none'}"
            for record in waiting:
                outcome = self.attempt(record.run_id) if record.lane == "backfill" else ""
                if outcome.startswith("ReplayUnavailable"):
                    refused.add(record.run_id)
            idle = idle + 1 if self.do_live() == "nothing_to_do" else 0
        raise Unexplained(f"not at rest: {self._left_open()}")

    def _left_open(self) -> list[RunRecord]:
        return [r for r in open_ledger(self.stream).read().runs.values() if r.is_open]

    def audit(self) -> Any:
        """Ledger, table and broker against each other."""
        with open_run(self.stream, "audit", RunRequest()) as run:
            return audit_stream(run)


def _is_stopped(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"
