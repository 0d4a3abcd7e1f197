"""Row 21: Spark's driver killed with -9, its answer lost, or the run killed beside it."""

import contextlib
import os
import signal
import tempfile
from pathlib import Path

import pytest

from devstack.command_line import finished, tideline
from devstack.process import wait_until
from tests.faults.crash import SENT
from tests.faults.processes import descendants, is_spark, state
from tests.worlds.drivers import drivers, jvms
from tests.worlds.spark_doubles import HookedSpark
from tests.worlds.streams import folder_of
from tideline.errors import ServiceAway
from tideline.failpoints import SPARK_PLACES

pytestmark = pytest.mark.slow


class Driver:
    """The driver on this machine of the run that a test starts; it is no child of that run."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.env = {"TIDELINE_RUNTIME": folder}

    def python(self, _):
        return drivers(self.folder)[-1:]

    def jvm(self, _):
        return jvms(self.folder)[-1:]

    def end(self):
        for pid in drivers(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Submitted:
    """spark-submit: a folder for Spark's settings asks for it. Its processes are the run's."""

    def __init__(self, folder):
        self.env = {"SPARK_CONF_DIR": folder}

    def python(self, process):
        return [pid for pid, command in descendants(process.pid) if is_application(command)][-1:]

    def jvm(self, process):
        return [pid for pid, command in descendants(process.pid) if is_spark(command)][-1:]

    def end(self):
        """The runs have waited for it."""


@pytest.fixture
def way():
    """How the runs that a test starts get their Spark, unless it says otherwise."""
    yield from spark_by(Driver)


@pytest.fixture(params=[Driver, Submitted])
def each_way(request):
    """The same, in both ways."""
    yield from spark_by(request.param)


def spark_by(kind):
    with tempfile.TemporaryDirectory(prefix="tl-", ignore_cleanup_errors=True) as folder:
        found = kind(folder)
        yield found
        found.end()


def submits(crash, way, point=None, **env):
    """`tideline run` with a Spark of its own."""
    crash.attempts += 1
    env = {**env, **way.env, **({} if point is None else {"TIDELINE_FAILPOINT": point})}
    return tideline("run", crash.file, "--run-id", "one", "--json", env=env)


def is_application(command):
    return "python" in Path(command[0]).name and command[1].endswith("ingest_range.py")


def fails_cleanly(process):
    """The run says that it may be tried again."""
    status, answer, errors = finished(process)
    assert (status, answer["status"]) == (4, "retry"), errors


@pytest.mark.parametrize("place", SPARK_PLACES)
def test_the_driver_is_killed(crash, place, each_way):
    """R2: its files are no rows; they are read again."""
    crash.waits()
    fails_cleanly(submits(crash, each_way, f"{place}:kill"))
    assert crash.rows() == []
    assert crash.repeat().status == "done"
    crash.judge_crash(f"Spark's driver killed at {place}")


@pytest.mark.parametrize("place", SPARK_PLACES)
def test_the_driver_of_a_replay_is_killed(crash, place, way):
    """R4: the rows stand; what a dead attempt has written is no part of the table."""
    crash.waits()
    crash.repeat()
    before = crash.rows()
    fails_cleanly(submits(crash, way, f"{place}:kill"))
    assert crash.rows() == before
    crash.repeat()
    assert crash.rows() == before
    crash.judge_crash(f"Spark's driver killed at {place}, in a replay")


@pytest.mark.parametrize("place", SPARK_PLACES)
def test_the_driver_of_a_decoding_is_killed(typed_crash, place, way):
    """Its files are no rows of either table; the landed ones are decoded again."""
    typed_crash.dies("lease:decoder")
    typed_crash.attempts += 1
    env = {**way.env, "TIDELINE_FAILPOINT": f"{place}:kill"}
    file = typed_crash.harness.folder / "orders.yaml"
    fails_cleanly(tideline("decode", file, "--run-id", "one", "--json", env=env))
    assert not typed_crash.places()
    typed_crash.repeat()
    typed_crash.judge(f"Spark's driver killed at {place}, decoding")


@pytest.mark.parametrize("place", ["spark:writing", "spark:written"])
def test_the_jvm_is_killed(crash, place, each_way):
    """The same for the JVM, which writes the files."""
    crash.waits()
    process = submits(crash, each_way, f"{place}:stop")
    application = stopped(process, each_way)
    os.kill(*each_way.jvm(process), signal.SIGKILL)
    os.kill(application, signal.SIGCONT)
    fails_cleanly(process)
    assert crash.repeat().status == "done"
    crash.judge_crash(f"Spark's JVM killed at {place}")


def test_the_jvm_is_killed_with_half_of_its_files(crash, way):
    """Delta: files that no commit names are no rows."""
    process, _ = hit_while_writing(crash, way, signal.SIGKILL)
    fails_cleanly(process)
    assert crash.rows() == []
    assert crash.repeat().status == "done"
    crash.judge_crash("Spark's JVM killed while it writes data files")


def test_spark_stopped_while_it_writes_resumes_after_the_retry(crash, each_way):
    """R5: its run is killed, so the lease is free; the retry's files lie in another folder."""
    process, jvm = hit_while_writing(crash, each_way, signal.SIGSTOP)
    try:
        zombies = [*each_way.python(process), jvm]
        process.kill()
        process.wait()
        crash.repeat()
        rows, version = crash.rows(), crash.version()
    finally:
        with contextlib.suppress(ProcessLookupError):  # its driver may have killed it
            os.kill(jvm, signal.SIGCONT)
    wait_until(lambda: not any(map(alive, zombies)), "Spark goes on", 60)
    assert (crash.rows(), crash.version()) == (rows, version)
    crash.judge_crash("Spark stopped while it writes, resumed after the retry")


@pytest.mark.parametrize("overlapping", [False, True])
def test_spark_stopped_before_it_writes_resumes_after_the_retry(crash, way, overlapping):
    """R5: what it writes then is in a folder of its own, and nobody adds it."""
    crash.waits()
    process = submits(crash, way, "spark:writing:stop")
    application = stopped(process, way)
    try:
        zombies = [application, *way.jvm(process)]
        process.kill()
        process.wait()
        crash.send(20)
        if overlapping:
            crash.harness.delete_records(before=40)
            crash.forget({r for r in crash.log.acknowledged if r[2] < 40})
            crash.policy("retention_loss", "accept_loss")
            crash.repeat("two")
        else:
            crash.repeat()
            crash.repeat("two")
        rows, version = crash.rows(), crash.version()
    finally:
        os.kill(application, signal.SIGCONT)
    wait_until(lambda: not any(map(alive, zombies)), "Spark goes on", 60)
    assert (crash.rows(), crash.version()) == (rows, version)
    which = "an overlapping range" if overlapping else "the retry"
    crash.judge_crash(f"Spark stopped before it writes, resumed after {which}")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_run_is_killed_and_spark_goes_on(crash, moment):
    """Its files are no rows: the retry reads again, and there is one copy."""
    crash.waits()

    def kill():
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()

    with crash.start("one", HookedSpark(crash.spark, **{moment: kill})) as run:
        assert run.ended() == -signal.SIGKILL
    read = crash.spark.submits
    assert crash.rows() == []
    crash.repeat()
    assert crash.spark.submits == read + 1
    assert len(crash.rows()) == SENT
    crash.judge_crash(f"run killed {moment} Spark writes its files")


def test_spark_has_written_and_reports_a_failure(crash):
    """Files of an application that failed are not added, however whole they look."""
    crash.waits()

    def fail():
        raise ServiceAway("spark-submit ended with status 143")

    crash.fails(ServiceAway, HookedSpark(crash.spark, after=fail), run_id="one")
    crash.attempts += 1
    read = crash.spark.submits
    assert crash.rows() == []
    crash.repeat()
    assert crash.spark.submits == read + 1
    crash.judge_crash("Spark has written, spark-submit reported a failure")


def stopped(process, way):
    """Wait until the application's Python has stopped itself; its process id."""

    def is_stopped():
        return [state(pid) for pid in way.python(process)] == ["T"]

    wait_until(is_stopped, "Spark does not stop", 120)
    (application,) = way.python(process)
    return application


def hit_while_writing(crash, way, number):
    """A run whose JVM gets a signal when its first data file appears, and the JVM's id."""
    crash.waits()
    crash.send(30_000, size=500)
    process = submits(crash, way)
    wait_until(lambda: way.jvm(process), "no JVM", 60)
    (jvm,) = way.jvm(process)
    table = folder_of(crash.stream.table.uri)
    wait_until(lambda: any(table.glob("landed-*/**/*.parquet")), "no data file", 120, 0.0005)
    os.kill(jvm, number)
    if commits(crash):
        os.kill(jvm, signal.SIGKILL)
        pytest.fail("the signal came too late")
    return process, jvm


def commits(crash):
    """Commits after the one that created the table."""
    log = folder_of(crash.stream.table.uri) / "_delta_log"
    return [p for p in log.glob("*.json") if int(p.stem) > 0]


def alive(pid):
    return state(pid) not in ("", "Z")
