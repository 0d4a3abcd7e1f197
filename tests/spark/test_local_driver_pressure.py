"""Real warm drivers without memory, disk or processor: nothing wrong, nothing that never ends."""

import os
import shutil
import signal
import subprocess
import threading
import time

import pytest

from devstack.process import wait_until
from tests.faults.processes import descendants
from tests.worlds.drivers import all_gone, drivers, jvms, lands_once
from tests.worlds.streams import is_clean, table_rows
from tideline.errors import ServiceAway
from tideline.launch import runtime
from tideline.launch.jars import spark_jars
from tideline.launch.java import find_java
from tideline.launch.jvm import ClassArchive, base_command
from tideline.launch.local_driver import end_drivers

SMALL_HEAP = "-Xmx80m -Dspark.testing.memory=1000000000"
"""Spark itself refuses to start with less than 450 MB, unless it is told another size."""


def at_once(harness, streams, run_id="one"):
    """Run streams at once; their errors, None where there is none."""
    found = [None] * len(streams)

    def work(which):
        try:
            harness.run(streams[which], run_id, None)
        except ServiceAway as error:
            found[which] = error

    threads = [threading.Thread(target=work, args=(which,)) for which in range(len(streams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(400)
    assert not any(thread.is_alive() for thread in threads)
    return found


def more(harness, name, count, value=b"x"):
    """Another stream with records waiting."""
    harness.create(name, partitions=1)
    harness.send(count, name, value=value)
    return harness.stream([name], name=name, spark={"keep_warm_seconds": 300})


@pytest.mark.slow
def test_jobs_of_a_driver_that_runs_out_of_memory(harness, warm, sockets, monkeypatch):
    """What fails is retriable and says why; run again, each lands one copy.

    The neighbour may have enough memory where it is read again in one task.
    """
    harness.send(300, value=os.urandom(900_000))
    other = more(harness, "other", 200_000, b"x" * 200)
    with monkeypatch.context() as patch:
        patch.setenv("_JAVA_OPTIONS", SMALL_HEAP)
        errors = at_once(harness, (warm, other))
        all_gone(sockets)
    failed = [error for error in errors if error is not None]
    assert errors[0] in failed
    assert all(error.retriable and "out of memory" in str(error) for error in failed)
    for stream, rows in ((warm, 400), (other, 200_000)):
        assert at_once(harness, (stream,)) == [None]
        assert len(table_rows(stream)) == len(set(table_rows(stream))) == rows
        assert is_clean(harness, stream)


@pytest.mark.slow
def test_eight_streams_at_once_in_one_driver(harness, sockets):
    """They share a heap of 1 GiB."""
    streams = [more(harness, f"s{n}", 40_000, os.urandom(700)) for n in range(8)]
    assert at_once(harness, streams) == [None] * 8
    assert len(jvms(sockets)) == 1
    for stream in streams:
        assert len(table_rows(stream)) == len(set(table_rows(stream))) == 40_000
        assert is_clean(harness, stream)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["driver", "JVM"])
def test_a_driver_that_is_stopped_between_jobs(harness, warm, sockets, monkeypatch, who):
    """Nothing has begun, so the run goes to another driver at once; the old one ends later."""
    harness.run(warm, "one", None)
    (pid,) = drivers(sockets) if who == "driver" else jvms(sockets)
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(runtime, "SILENCE_SECONDS", 8)
    harness.send(10)
    lands_once(harness, warm, 110)
    before = drivers(sockets)
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: len(drivers(sockets)) == 1, "the given up driver goes on", 60)
    assert set(drivers(sockets)) < set(before)


@pytest.mark.slow
def test_an_upgrade_of_jars_in_place(harness, warm, sockets, monkeypatch, tmp_path):
    """Under the same names: a driver that has loaded the old ones is met no more."""
    jars = tmp_path / "jars"
    shutil.copytree(os.environ.get("TIDELINE_SPARK_JARS") or spark_jars()[0].parent, jars)
    monkeypatch.setenv("TIDELINE_SPARK_JARS", str(jars))
    harness.run(warm, "one", None)
    before = jvms(sockets)
    for jar in jars.glob("*.jar"):
        draft = jar.with_suffix(".draft")
        shutil.copyfile(jar, draft)
        draft.replace(jar)
    harness.send(10)
    lands_once(harness, warm, 110)
    assert len(jvms(sockets)) == 2
    assert set(before) < set(jvms(sockets))


@pytest.fixture
def small_cache(cache, request):
    """A cache on a disk of its own."""
    cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", str(cache)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no right to mount")
    yield cache
    subprocess.run(["umount", "--lazy", str(cache)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("small_cache", ["512k", "20m"], indirect=True)
def test_a_full_disk_under_the_archive(harness, warm, sockets, small_cache):
    """Full while classes are noted, or while they are written: no archive, nothing is left."""
    harness.run(warm, "one", None)
    end_drivers(seconds=400)
    all_gone(sockets)
    assert not list(small_cache.rglob("spark-*"))
    harness.send(10)
    lands_once(harness, warm, 110)


@pytest.mark.slow
def test_a_driver_that_is_killed_while_it_writes_its_archive(harness, warm, sockets, cache):
    """It is half an archive under another name; the next writer removes it."""
    harness.run(warm, "one", None)
    (driver,) = drivers(sockets)
    os.kill(driver, signal.SIGTERM)

    def writers():
        return [p for p, command in descendants(driver) if "-Xshare:dump" in command]

    wait_until(lambda: bool(writers()), "it writes no archive", 60)
    (writer,) = writers()
    harness.send(10)
    lands_once(harness, warm, 110)  # another driver, meanwhile
    archive = ClassArchive(base_command(find_java()))
    wait_until(lambda: any(cache.rglob("*.draft")) or archive.path.exists(), "no draft", 200)
    for pid in (driver, writer):
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    end_drivers(seconds=400)
    all_gone(sockets)
    assert [file.name for file in archive.path.parent.glob("spark-*.jsa")] == [archive.path.name]
    assert not list(cache.rglob("*.draft"))
