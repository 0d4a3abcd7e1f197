"""What runs cost in an object store, in requests of their own: budgets, whatever the history."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from devstack.ledger_history import closed_run, fabricate
from devstack.spark_apps import NoSpark
from devstack.store_faults import counted
from tests.worlds.tables import Rows
from tideline.cli.main import main
from tideline.documents import dump, load
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.model.spark_job import SparkJob, SparkResult
from tideline.table.written_files import Manifest
from tideline.wiring import open_ledger

BUDGETS = {
    "idle": 36,
    "landing": 80,
    "replay": 80,
    "head": 15,
    "page": 1,
    "status": 20,
    "audit": 65,
    "maintain": 130,
    "rewind": 220,
}
"""Requests at most; `docs/object-stores.md` has what was measured."""
RUNS = 1000
PARTITIONS = 4


class FolderSpark:
    """Writes one file for each range, through the server's folder: Spark's requests are its own."""

    def __init__(self, bucket):
        self.bucket = bucket

    def submit(self, job_path):
        job = load(SparkJob, Path(job_path).read_bytes(), "the job")
        folder = self.bucket.path() / job.folder
        files, rows = [], 0
        for number, wanted in enumerate(job.ranges):
            data = Rows(wanted, plan_id=job.plan_id).table
            path = f"topic_id={wanted.topic_id}/part-{number:05d}.parquet"
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(data.drop("topic_id"), target)
            files.append(path)
            rows += len(data)
        (folder / "_files.json").write_text(dump(Manifest(tuple(files))))
        Path(job.result_path).write_text(dump(SparkResult(rows)))


@pytest.fixture
def stream(harness, bucket, monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE", json.dumps(bucket.store.connection(bucket.proxy.endpoint))
    )
    harness.create(partitions=PARTITIONS)
    return harness.stream(table={"uri": bucket.uri(), "connection": "lake"})


def cost(bucket, act):
    """Requests by operation."""
    bucket.proxy.clear()
    act()
    return counted(bucket.proxy.requests)


def age(bucket, stream):
    """As a thousand runs would leave it: closed runs, many versions of ledger and table."""
    folder = str(bucket.path("orders.ledger"))
    store = DeltaLedgerStore(folder)
    fabricate(store, "history:run:00000000", [closed_run(n) for n in range(RUNS)])
    ledger = Ledger(store, stream.stream)
    for _ in range(105):
        ledger.update(lambda s: s.with_next_token())


def test_requests_do_not_grow_with_the_history(harness, bucket, stream):
    """What a run and each command of a stream cost; after 1 and after 1,000 runs."""
    spark, found, file = FolderSpark(bucket), {}, str(harness.folder / "orders.yaml")

    def command(*arguments):
        assert main([*arguments, file, "--json"]) == 0

    def land(run_id):
        for partition in range(PARTITIONS):
            harness.send(10, partition=partition)
        return cost(bucket, lambda: harness.run(stream, run_id, spark))

    land("first")
    for runs in (1, RUNS):
        if runs == RUNS:
            age(bucket, stream)
        found["idle", runs] = cost(bucket, lambda r=runs: harness.run(stream, f"i{r}", NoSpark()))
        found["landing", runs] = land(f"l{runs}")
        found["replay", runs] = cost(bucket, lambda r=runs: harness.run(stream, f"l{r}", spark))
        found["head", runs] = cost(bucket, lambda: open_ledger(stream).read())
        kept = open_ledger(stream)
        kept.read()
        found["page", runs] = cost(bucket, kept.read)
        found["status", runs] = cost(bucket, lambda: command("status"))
        found["audit", runs] = cost(bucket, lambda: command("audit"))
        land(f"m{runs}")
        found["maintain", runs] = cost(bucket, lambda: command("maintain"))
        back = ("rewind", "--to-run", f"l{runs}", "--reason", "a test")
        found["rewind", runs] = cost(bucket, lambda b=back: command(*b))
        harness.run(stream, f"again{runs}", spark)
    for (what, runs), requests in found.items():
        print(what, runs, requests.total(), dict(requests))
    for (what, _), requests in found.items():
        assert requests.total() <= BUDGETS[what], (what, found)
