"""Runs through a real warm driver: how many there are, what is left, what happens when they die."""

import os
import signal
import threading
from pathlib import Path

import pytest

from devstack.command_line import finished, tideline
from devstack.process import wait_until
from tests.faults.processes import state
from tests.worlds.drivers import all_gone, drivers, jvms, lands_once, stopped, waits_in
from tests.worlds.streams import folder_of, is_clean, table_rows
from tideline.errors import ServiceAway
from tideline.failpoints import SPARK_PLACES
from tideline.launch import local_driver, runtime
from tideline.launch.launcher import Launcher
from tideline.launch.local_driver import make_room, warm_drivers


def test_runs_share_one_jvm_and_a_killed_one_is_replaced(harness, warm, sockets):
    harness.run(warm, "one", None)
    (jvm,) = jvms(sockets)
    harness.send(10)
    harness.run(warm, "two", None)
    assert jvms(sockets) == [jvm]
    os.kill(jvm, signal.SIGKILL)
    harness.send(5)
    lands_once(harness, warm, 115)  # at once: the driver asks its JVM, not the system
    assert jvms(sockets) != [jvm]


def test_a_driver_that_is_not_kept_leaves_nothing(harness, warm, sockets):
    once = harness.stream(spark={"keep_warm_seconds": 0})
    harness.run(once, "one", None)
    assert len(table_rows(once)) == 100
    all_gone(sockets)


def test_a_job_meets_the_driver_that_was_prepared(harness, warm, sockets):
    """Prepared twice, it is one; a stream that keeps none gets none."""
    Launcher(harness.stream(spark={"keep_warm_seconds": 0}).spark).prepare()
    assert drivers(sockets) == []
    for _ in range(2):
        Launcher(warm.spark).prepare()
    (prepared,) = drivers(sockets)
    harness.run(warm, "one", None)
    assert drivers(sockets) == [prepared]
    assert len(table_rows(warm)) == 100


def test_a_prepared_driver_without_a_job_ends(warm, sockets, monkeypatch):
    monkeypatch.setattr(local_driver, "_PREPARED_SECONDS", 1)
    Launcher(warm.spark).prepare()
    assert len(drivers(sockets)) == 1
    all_gone(sockets)


def _refuses(address):
    raise OSError(f"{address}: no space left")


def test_a_driver_that_cannot_be_prepared_is_the_job_s_error(warm, sockets, monkeypatch):
    """A preparation fails silently: the run says what is wrong once a job needs Spark."""
    monkeypatch.setattr(local_driver, "_listening", _refuses)
    Launcher(warm.spark).prepare()
    assert drivers(sockets) == []


def test_a_run_that_lands_loads_nothing_that_it_does_not_use(harness, warm, sockets):
    """Python's imports are most of what a small run does besides Spark."""
    file = harness.stream_file(spark={"keep_warm_seconds": 0})
    told = {"PYTHONPROFILEIMPORTTIME": "1"}  # Python names every module on standard error
    status, answer, errors = finished(tideline("run", file, "--json", env=told))
    assert (status, answer["rows"]) == (0, 100), errors
    loaded = {line.rpartition("|")[2].strip() for line in errors.splitlines()}
    assert {"tideline.pipeline.steps", "deltalake", "kafka"} <= loaded
    assert not loaded & {"airflow", "pandas", "pyarrow.compute", "pyspark", "sqlalchemy"}


@pytest.mark.slow  # half a minute beside other parts
def test_before_another_driver_starts_the_longest_idle_one_ends(
    harness, warm, sockets, monkeypatch
):
    """A bound by number; by memory, as if there were none."""
    harness.run(warm, "one", None)
    (first,) = warm_drivers()
    assert (first.jobs, first.pid) == (0, drivers(sockets)[0])
    assert first.bytes > 200_000_000
    monkeypatch.setattr(local_driver, "MOST_DRIVERS", 1)
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # of a driver's own
    harness.send(10)
    harness.run(warm, "two", None)
    (second,) = warm_drivers()
    assert second.pid != first.pid
    status, answer, errors = finished(tideline("status", harness.folder / "orders.yaml", "--json"))
    assert status == 0, errors
    assert [driver["pid"] for driver in answer["drivers"]] == [second.pid]
    monkeypatch.setattr(local_driver, "MOST_DRIVERS", 9)
    monkeypatch.setattr(runtime, "free_bytes", lambda: 0)
    make_room(sockets / "another.socket")
    assert warm_drivers() == []


@pytest.mark.slow
def test_streams_share_one_jvm_at_once(harness, warm, sockets):
    harness.create("more", partitions=1)
    harness.send(50, "more")
    other = harness.stream(["more"], name="more", spark={"keep_warm_seconds": 300})
    threads = [
        threading.Thread(target=harness.run, args=(stream, "one", None)) for stream in (warm, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(jvms(sockets)) == 1
    assert (len(table_rows(warm)), len(table_rows(other))) == (100, 50)


@pytest.mark.slow
@pytest.mark.parametrize("place", SPARK_PLACES)
def test_a_driver_that_dies_in_a_job(harness, warm, sockets, monkeypatch, place):
    with monkeypatch.context() as patch:
        patch.setenv("TIDELINE_FAILPOINT", f"{place}:kill")
        with pytest.raises(ServiceAway, match="is lost"):
            harness.run(warm, "one", None)
    all_gone(sockets)
    lands_once(harness, warm)


@pytest.mark.slow
@pytest.mark.parametrize("hits", [signal.SIGKILL, signal.SIGSTOP])
def test_a_jvm_that_dies_or_stops_in_a_job(harness, warm, sockets, monkeypatch, hits):
    """A stopped one is killed by its driver, which hears nothing of it."""
    with monkeypatch.context() as patch:
        waits_in(patch)
        process = tideline("run", harness.folder / "orders.yaml", "--run-id", "one", "--json")
        driver, (jvm,) = stopped(sockets), jvms(sockets)
        os.kill(jvm, hits)
        os.kill(driver, signal.SIGCONT)
        status, answer, errors = finished(process)
    assert (status, answer["status"]) == (4, "retry"), errors
    all_gone(sockets)
    assert state(jvm) == ""
    lands_once(harness, warm)


@pytest.mark.slow
def test_a_driver_that_is_stopped_in_a_job_is_given_up(harness, warm, sockets, monkeypatch):
    """It resumes when its files are nobody's, and ends."""
    with monkeypatch.context() as patch:
        waits_in(patch)
        patch.setattr(runtime, "SILENCE_SECONDS", 12)
        with pytest.raises(ServiceAway, match="is lost"):
            harness.run(warm, "one", None)
    zombie = stopped(sockets)
    lands_once(harness, warm)
    (alive,) = set(drivers(sockets)) - {zombie}
    os.kill(zombie, signal.SIGCONT)
    wait_until(lambda: drivers(sockets) == [alive], "the given up driver goes on", 60)
    assert len(table_rows(warm)) == 100
    assert is_clean(harness, warm)


@pytest.mark.slow
def test_a_run_that_is_killed_takes_its_job_along(harness, warm, sockets):
    """Its driver cancels the job, and serves on."""
    harness.send(300_000, value=b"x" * 200)
    process = tideline("run", harness.folder / "orders.yaml", "--run-id", "one", "--json")
    table = folder_of(warm.table.uri)
    wait_until(lambda: any(table.glob("landed-*/**/*.parquet")), "no data file", 120, 0.001)
    process.kill()
    process.wait()
    before, log = drivers(sockets), next(sockets.glob("*.log"))
    wait_until(lambda: "ancelled" in log.read_text(), "it is not cancelled", 30)
    harness.run(warm, "two", None)
    lands_once(harness, warm, 300_100)
    served = set(drivers(sockets))
    assert served >= set(before)


@pytest.mark.slow
def test_memory_of_a_driver_without_work(harness, warm, sockets):
    """The heap is given back; docs/spark.md names the figure."""
    harness.send(50_000)
    harness.run(warm, "one", None)
    (driver,), (jvm,) = drivers(sockets), jvms(sockets)
    threading.Event().wait(25)
    megabytes = {name: _resident(pid) for name, pid in (("Python", driver), ("JVM", jvm))}
    print(megabytes)
    assert sum(megabytes.values()) < 900, megabytes


def _resident(pid):
    """Megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.slow
def test_a_driver_leaks_no_threads(harness, warm, sockets):
    """Each thread of the driver has one in its JVM, which ends with it; Spark's pools end later."""
    harness.run(warm, "first", None)
    (jvm,) = jvms(sockets)

    def ours():
        names = [task.read_text() for task in Path(f"/proc/{jvm}/task").glob("*/comm")]
        return sum(name.startswith("Thread-") for name in names)

    before = ours()
    for number in range(6):
        harness.send(1)
        harness.run(warm, f"run {number}", None)
    assert before <= ours() <= before + 1
