"""`tideline` as a user starts it: processes of their own, real Spark, signals."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable

from devstack.command_line import ROOT, finished, tideline
from devstack.process import wait_until
from tests.worlds.output_schema import assert_fits
from tests.worlds.streams import head, table_rows, table_version
from tideline.stream.files import read_stream
from tideline.wiring import open_ledger

UNUSED = {"airflow", "pandas", "pyarrow.compute", "pyspark", "sqlalchemy"}


@pytest.fixture
def orders(harness):
    """A stream file whose topic holds 100 records."""
    harness.create(partitions=1)
    harness.send(100)
    return harness.stream_file()


def answered(command, *arguments, **options):
    """Exit status, JSON of standard output, standard error; the JSON fits the schema."""
    status, answer, errors = finished(tideline(command, *arguments, "--json", **options))
    assert_fits(command, answer)
    return status, answer, errors


def clean(path):
    status, answer, _ = answered("audit", path)
    return status == 0 and answer["clean"]


def test_a_run_answers_with_the_contract_s_keys_and_nothing_else(harness, orders):
    """One JSON object on standard output, whatever Spark and the logs have to say."""
    status, plan, _ = answered("plan", orders)
    assert status == 0
    assert plan["findings"] == []
    assert plan["ranges"][0]["end_offset"] == 100
    status, answer, errors = answered("run", orders, "--run-id", "one")
    assert status == 0, errors
    assert (answer["status"], answer["run_id"], answer["lane"]) == ("done", "one", "live")
    assert (answer["rows"], answer["offset_lag"], answer["incidents"]) == (100, 0, [])
    assert answer["table_version"] == 1
    (found,) = answer["ranges"]
    assert found == {
        "topic": harness.topic(),
        "topic_id": harness.topic_id(),
        "generation": 0,
        "partition": 0,
        "start_offset": 0,
        "end_offset": 100,
        "rows": 100,
    }
    status, ledger, _ = answered("ledger", orders)
    assert status == 0
    assert ledger["location"].endswith("orders.ledger")
    (position,) = ledger["head"]
    assert position["next_offset"] == 100
    assert set(position) >= {"topic", "topic_id", "generation", "partition", "leader_epoch"}
    took = answered("status", orders)[1]["streams"][0]["run_seconds"]
    assert took.pop("run_id") == "one"
    assert min(took["planning"], took["waiting_for_spark"], took["reading"]) > 0, took
    assert answered("run", orders, "--run-id", "idle")[0] == 0
    assert answered("status", orders)[1]["streams"][0]["run_seconds"]["run_id"] == "one"
    status, audit, _ = answered("audit", orders)
    assert status == 0
    lists = ("gaps", "overlaps", "duplicates", "missing", "foreign")
    assert [audit[k] for k in lists] == [[], [], [], [], []]


def test_every_other_command_answers_by_the_schema(harness, orders, spark, tmp_path):
    """With incidents, a decision, a rewind and a move, as far as one stream can have them."""
    stream = read_stream(orders)
    assert answered("validate", orders)[:2] == (0, {"streams": ["orders"]})
    assert answered("incident", orders)[:2] == (0, {"incidents": []})
    harness.run(stream, "one", spark)
    harness.send(50)
    harness.delete_records(before=120)
    status, answer, errors = answered("run", orders, "--run-id", "two")
    assert status == 3, errors
    assert_fits("RunFailure", answer)
    (found,) = answer["incidents"]
    status, answer, _ = answered("plan", orders)
    assert (status, answer["incidents"][0]["id"]) == (3, found["id"])
    assert answer["findings"][0]["class"] == "retention_loss"
    choice = ("--choice", "accept_loss", "--reason", "it was meant")
    status, answer, _ = answered("resolve", orders, "--incident", found["id"], *choice)
    assert (status, answer["incident"]["decision"]) == (0, "accept_loss")
    harness.run(stream, "two", spark)
    status, answer, _ = answered("ledger", orders)
    assert [p["rows"] for p in answer["plans"]] == [100, 30]
    assert answer["incidents"][0]["closed_at"] is not None
    status, answer, _ = answered("incident", orders, found["id"])
    assert answer["incidents"][0]["affected_runs"] == []
    to_run = ("--to-run", "one", "--reason", "bad rows")
    status, answer, errors = answered("rewind", orders, *to_run)
    assert (status, answer["undone_runs"], answer["removed_rows"]) == (0, ["two"], 30), errors
    assert_fits("Rewound", answer)
    status, answer, _ = answered("rewind", orders, *to_run)
    assert (status, answer["status"], answer["head"][0]["next_offset"]) == (0, "nothing_to_do", 100)
    status, answer, _ = answered("rewind", orders, "--to-run", "never", "--reason", "x")
    assert (status, answer["error"], answer["to_run"]) == (2, "BadInput", "never")
    status, answer, _ = answered("ledger", orders)
    assert answer["rewinds"][0]["undone_runs"] == ["two"]
    to = ("--to", "delta", "--at", tmp_path / "moved.ledger")
    status, answer, errors = answered("move-ledger", orders, *to)
    assert (status, answer["moved"], answer["from"]) == (0, True, f"{stream.table.uri}.ledger"), (
        errors
    )


@pytest.mark.usefixtures("warm_spark")
def test_a_run_loads_nothing_that_it_does_not_use(orders):
    """Each task of a Dag run is a process of its own, and would wait for it."""
    status, answer, errors = answered("run", orders)
    assert (status, answer["rows"]) == (0, 100), errors
    told = {"PYTHONPROFILEIMPORTTIME": "1"}  # Python names every module on standard error
    status, answer, errors = answered("run", orders, env=told)
    assert (status, answer["status"]) == (0, "nothing_to_do")
    loaded = {line.rpartition("|")[2].strip() for line in errors.splitlines()}
    assert {"tideline.pipeline.steps", "deltalake", "kafka"} <= loaded
    assert not loaded & UNUSED
    looked = f"""
import sys
from datetime import UTC, datetime
from tideline.table.opened import active_files
from tideline.table.delta_table import TargetTable
table = TargetTable({read_stream(orders).table.uri!r})
files = list(active_files(table._open(None)))
assert [f.rows for f in files] == [100] and files[0].newest is not None
assert not {UNUSED!r} & set(sys.modules)
"""
    path = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
    subprocess.run([sys.executable, "-c", looked], env=path, check=True)


def test_an_idle_run_is_cheap(orders, harness, spark):
    """No JVM: its start alone takes more seconds of processor time than this."""
    harness.run(read_stream(orders), "lands", spark)
    before = os.times()
    status, answer, _ = answered("run", orders)
    after = os.times()
    assert (status, answer["status"]) == (0, "nothing_to_do")
    used = after.children_user + after.children_system
    assert used - before.children_user - before.children_system < 5


def test_exit_statuses(harness, orders, spark, tmp_path):
    """2 bad input, 3 halted, 4 away, 6 audit not clean; each with JSON."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("stream: x\n")
    status, answer, errors = answered("validate", orders, broken)
    assert status == 2
    assert answer["problems"][0]["file"] == str(broken)
    assert f"{broken}:1: kafka" in errors

    stream = read_stream(orders)
    harness.run(stream, "lands", spark)
    extra = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": 1000}
    away = {
        f"AIRFLOW_CONN_{harness.connection.upper()}": json.dumps(
            {"conn_type": "kafka", "extra": extra}
        )
    }
    status, answer, _ = answered("run", orders, env=away)
    assert (status, answer["status"], answer["retriable"]) == (4, "retry", True)

    missing = {f"AIRFLOW_CONN_{harness.connection.upper()}": ""}
    status, answer, errors = answered("run", orders, env=missing)
    assert (status, answer["error"]) == (2, "ConnectionMissing"), errors

    harness.send(50)
    harness.delete_records(before=120)
    status, answer, errors = answered("run", orders)
    assert (status, answer["status"]) == (3, "halted")
    assert {"run_id", "plan_id", "lane", "ranges", "rows", "offset_lag", "table_version"} <= set(
        answer
    )
    (incident,) = answer["incidents"]
    assert incident["class"] == "retention_loss"
    assert (incident["lost_start"], incident["lost_end"]) == (100, 120)
    assert incident["decision"] is None
    assert "Next:" in errors
    status, answer, _ = answered("incident", orders, incident["id"])
    assert (status, answer["incidents"][0]["id"]) == (0, incident["id"])
    assert "accept_loss" in answer["incidents"][0]["choices"]

    DeltaTable(stream.table.uri).delete("offset < 10")
    status, answer, _ = answered("audit", orders)
    assert (status, answer["clean"]) == (6, False)
    assert [(f["start_offset"], f["end_offset"]) for f in answer["missing"]] == [(0, 10)]


@pytest.mark.slow
@pytest.mark.usefixtures("warm_spark")
def test_after_the_commit_the_next_attempt_reads_nothing_again(harness, orders, spark):
    """Killed between the table's commit and the head's move."""
    stream = read_stream(orders)
    point = {"TIDELINE_FAILPOINT": "ingest:committed:kill"}
    finished(tideline("run", orders, "--run-id", "killed", env=point))
    assert head(stream) == {(harness.topic(), 0): 0}
    submits, version = spark.submits, table_version(stream)
    harness.run(stream, "killed", spark)
    assert (spark.submits, table_version(stream)) == (submits, version)
    assert head(stream) == {(harness.topic(), 0): 100}


@pytest.mark.usefixtures("warm_spark")
def test_two_runs_at_the_same_instant_land_once(harness, orders):
    """One lands, the other is told to try later or finds nothing."""
    processes = [tideline("run", orders, "--json") for _ in range(2)]
    answers = [finished(p) for p in processes]
    outcomes = sorted((status, answer["status"]) for status, answer, _ in answers)
    assert outcomes[0] in [(0, "done"), (0, "nothing_to_do")]
    assert sum(answer["rows"] for _, answer, _ in answers) == 100
    assert outcomes in [
        [(0, "done"), (0, "nothing_to_do")],
        [(0, "done"), (4, "retry")],
    ]
    stream = read_stream(orders)
    assert head(stream) == {(harness.topic(), 0): 100}
    assert clean(orders)


@pytest.mark.slow
def test_a_run_stopped_before_its_commit_and_resumed_after_its_successor_publishes_nothing(
    harness, orders
):
    """SIGSTOP when the first data file is there and no commit is; the lease runs out.

    It looks at its leases before it looks at the table's token, which would refuse it, too (R5).
    """
    harness.send(300_000, value=b"x" * 200)
    stream = read_stream(orders)
    table = harness.folder / "lake" / "orders"
    short = {"TIDELINE_LEASE_SECONDS": "3"}
    zombie = tideline("run", orders, "--run-id", "same", "--json", env=short)
    try:
        wait_until(lambda: any(table.glob("landed-*/**/*.parquet")), "no data file", 120, 0.001)
        os.killpg(zombie.pid, signal.SIGSTOP)
        assert not (table / "_delta_log" / f"{1:020}.json").exists(), "stopped too late"
        before = answered("run", orders, "--run-id", "same", env=short)
        if before[0] == 4:  # the lease had not run out yet
            wait_until(lambda: _lease_expired(stream), "the lease holds on", 30)
            before = answered("run", orders, "--run-id", "same", env=short)
        assert (before[0], before[1]["status"]) == (0, "done"), before[2]
        version, rows = table_version(stream), table_rows(stream, "offset", "plan_id")
    finally:
        os.killpg(zombie.pid, signal.SIGCONT)
    status, answer, errors = finished(zombie)
    assert (status, answer["error"]) == (4, "StreamBusy"), errors
    assert "lost the live lease" in answer["message"]
    assert (table_version(stream), table_rows(stream, "offset", "plan_id")) == (version, rows)
    assert head(stream) == {(harness.topic(), 0): 300_100}
    assert clean(orders)


def _lease_expired(stream):
    leases = open_ledger(stream).read().control.leases
    return all(lease.expires_at < datetime.now(UTC) for lease in leases)
