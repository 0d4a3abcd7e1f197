"""The run's side of a warm driver: whom it asks, when it starts another one, when it gives up."""

import ast
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from devstack.process import wait_until
from tests.worlds.fake_drivers import run
from tideline.errors import ServiceAway
from tideline.launch import local_driver, runtime
from tideline.launch.local_driver import LocalDriver, end_drivers


def test_one_driver_serves_one_run_after_the_other(fake, sockets):
    run()
    run(keep_seconds=60)
    assert fake.notes == [
        "started",
        '{"job_path": "/job.json", "keep_seconds": 900}',
        '{"job_path": "/job.json", "keep_seconds": 60}',
    ]
    assert [file.suffix for file in sorted(sockets.iterdir())] == [".log", ".socket", ""]


def test_two_runs_at_once_start_one_driver(fake):
    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.started) == 1
    assert len(fake.notes) == 6


def test_a_driver_that_is_not_kept_leaves_nothing(fake, sockets):
    run(keep_seconds=0)
    run(keep_seconds=0)
    assert len(fake.started) == 2
    assert [file.name for file in sockets.iterdir()] == ["lock"]


def test_a_driver_that_dies_at_once_is_replaced(fake):
    """Nothing has begun, so nothing can be run twice."""
    fake.plans("dies early once")
    run()
    assert len(fake.started) == 2


def test_drivers_that_die_at_once_are_tried_three_times(fake, sockets):
    fake.plans("dies early")
    with pytest.raises(ServiceAway, match=r"ended at once, 3 times.*\na line of the log"):
        run()
    assert len(fake.started) == 3
    assert [file.name for file in sockets.iterdir()] == ["lock"]


def test_a_job_that_has_begun_is_not_run_twice(fake):
    """The run fails and may be tried again; then it meets another driver."""
    fake.plans("dies")
    with pytest.raises(ServiceAway, match="is lost"):
        run()
    assert len(fake.started) == 1
    fake.plans("works")
    run()
    assert len(fake.started) == 2


def test_a_silent_driver_is_given_up(fake, monkeypatch):
    monkeypatch.setattr(runtime, "SILENCE_SECONDS", 0.3)
    fake.plans("silent")
    # On a busy machine its start alone takes longer than that.
    with pytest.raises(ServiceAway, match=r"was not started|no Spark driver can be started"):
        run()
    fake.plans("works")
    monkeypatch.setattr(runtime, "SILENCE_SECONDS", 60)
    run()
    assert fake.notes[-1].startswith('{"job_path"')


def test_a_driver_that_hangs_in_a_job_is_given_up(fake, monkeypatch, sockets):
    monkeypatch.setattr(runtime, "SILENCE_SECONDS", 0.3)
    fake.plans("hangs")
    began = time.monotonic()
    with pytest.raises(ServiceAway, match="is lost"):
        run()
    assert time.monotonic() - began < 14
    assert len(fake.started) == 1
    assert not list(sockets.glob("*.socket"))


def test_a_failed_job_leaves_the_driver(fake):
    fake.plans("fails")
    with pytest.raises(ServiceAway, match="has failed; the driver's log:\na line of the log"):
        run()
    fake.plans("works")
    run()
    assert len(fake.started) == 1


def test_a_stale_socket_is_replaced(fake, sockets):
    """Its driver was killed; so a machine that was switched off leaves it."""
    run()
    os.kill(fake.started[0], signal.SIGKILL)
    (address,) = sockets.glob("*.socket")

    def refuses():
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(address)) != 0

    wait_until(refuses, "the driver goes on", 10)
    run()
    assert len(fake.started) == 2


def test_only_what_was_found_is_given_up(fake, sockets):
    """Somebody else may have started the next driver meanwhile."""
    run()
    (address,) = sockets.glob("*.socket")
    local_driver._give_up(address, (0, 0))
    assert address.exists()
    local_driver._give_up(address, runtime.identity(address))
    assert [file.name for file in sockets.iterdir()] == ["lock"]


def test_a_lock_that_is_kept_is_waited_for_and_given_up(fake, sockets, monkeypatch):
    """Its owner may have been stopped."""
    monkeypatch.setattr(runtime, "SILENCE_SECONDS", 0.2)
    said = []

    def runs():
        with pytest.raises(ServiceAway, match=r"another process keeps .*lock") as away:
            run()
        said.append(away.value)

    thread = threading.Thread(target=runs, daemon=True)
    with runtime.locked(sockets):
        thread.start()
        thread.join(20)
    assert said
    assert fake.notes == []


def stopped_by_signal(driver, ready):
    """Run a job until a handler stops it, as Airflow's does."""
    before = signal.signal(signal.SIGALRM, lambda *_: driver.stop())
    main = threading.main_thread().ident

    def stop():
        wait_until(ready, "the job does not begin", 20)
        signal.pthread_kill(main, signal.SIGALRM)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        with pytest.raises(ServiceAway):
            driver.submit("/job.json")
    finally:
        thread.join()
        signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_ends_the_job_and_not_the_driver(fake, sockets):
    fake.plans("hangs")
    stopped_by_signal(LocalDriver("local[2]", 900), lambda: len(fake.notes) > 1)
    wait_until(lambda: "client gone" in fake.notes, "the driver was not told", 10)
    assert list(sockets.glob("*.socket"))
    fake.plans("works")
    run()
    assert len(fake.started) == 1


def test_a_run_that_is_stopped_while_its_driver_starts_starts_no_other(fake):
    fake.plans("silent")
    stopped_by_signal(LocalDriver("local[2]", 900), lambda: "started" in fake.notes)
    assert len(fake.started) == 1


def test_a_run_that_was_stopped_before_runs_nothing(fake):
    driver = LocalDriver("local[2]", 900)
    driver.stop()
    with pytest.raises(ServiceAway):
        driver.submit("/job.json")
    assert not any("job_path" in note for note in fake.notes)


def test_all_drivers_are_ended(fake):
    run()
    run(master="local[3]")
    end_drivers()
    assert fake.notes.count('{"end": true}') == 2
    run()
    assert len(fake.started) == 3


def test_a_driver_starts_its_jvm_before_it_imports_anything_large():
    """What is imported before is waited for; everything else is imported while the JVM starts."""
    program = (Path(__file__).parents[2] / "spark_jobs/local_driver.py").read_text()
    imports = (n for n in ast.parse(program).body if isinstance(n, ast.Import | ast.ImportFrom))
    top = "\n".join(map(ast.unparse, imports))
    large = {"pydantic", "pyspark", "ssl", "tideline.documents", "yaml"}
    looked = f"{top}\nassert not {large!r} & set(sys.modules), {large!r} & set(sys.modules)"
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "plugins")}
    subprocess.run([sys.executable, "-c", looked], env=path, check=True)
