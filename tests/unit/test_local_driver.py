"""The run's side of a warm driver: whom it asks, when it starts another one, when it gives up."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import pytest

from devstack.process import wait_until
from tideline.errors import ServiceAway
from tideline.launch import local_driver, runtime
from tideline.launch.local_driver import LocalDriver, end_drivers

DRIVER = """
import json, os, socket, sys, time
if os.fork():
    os._exit(0)
listener, address = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
here = os.path.dirname(__file__)
def plan():
    return open(here + "/plan").read()
def note(text):
    with open(here + "/notes", "a") as notes:
        notes.write(f"{text} {os.getpid()}\\n")
note("started")
try:
    print("a line of the log", flush=True)
except OSError:
    pass  # a full disk
if plan() == "dies early":
    os._exit(1)
if plan() == "dies early once":
    open(here + "/plan", "w").write("works")
    os._exit(1)
while True:
    connection, _ = listener.accept()
    if plan() == "silent":
        time.sleep(60)
    request = json.loads(connection.makefile("r").readline())
    note(json.dumps(request))
    connection.sendall(b"accepted\\n")
    if "end" in request:
        os._exit(0)
    if plan() == "dies":
        os._exit(1)
    if plan() == "hangs":
        connection.settimeout(15)
        connection.recv(1)
        note("client gone")
        continue
    connection.sendall(b"alive\\nfailed\\n" if plan() == "fails" else b"alive\\ndone\\n")
    connection.close()
    if request["keep_seconds"] == 0:
        os._exit(0)
"""


class Fake:
    """A driver without Spark, whose behaviour is a word in a file."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "local_driver.py").write_text(DRIVER)
        self.plans("works")

    def plans(self, word):
        (self.folder / "plan").write_text(word)

    @property
    def notes(self):
        file = self.folder / "notes"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.rpartition(" ")[0] for line in lines]

    @property
    def started(self):
        """Process ids of all that were started."""
        lines = (self.folder / "notes").read_text().splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith("started ")]

    def end(self):
        for pid in self.started if (self.folder / "notes").exists() else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@pytest.fixture
def sockets(monkeypatch):
    """A runtime folder; its path is short, as a socket's has to be."""
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        monkeypatch.setenv("TIDELINE_RUNTIME", folder)
        yield Path(folder)


@pytest.fixture
def fake(tmp_path, monkeypatch, sockets):
    monkeypatch.setenv("TIDELINE_SPARK_JOBS", str(tmp_path))
    monkeypatch.setattr(local_driver, "find_java", lambda: None)
    (tmp_path / "a.jar").touch()
    command = [sys.executable, "-cp", f"{tmp_path}/a.jar"]
    monkeypatch.setattr(local_driver, "base_command", lambda _: command)
    monkeypatch.setattr(local_driver, "source_digest", lambda: "source")
    driver = Fake(tmp_path)
    yield driver
    driver.end()


def run(keep_seconds=900, master="local[2]"):
    LocalDriver(master, keep_seconds).submit("/job.json")


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
    with pytest.raises(ServiceAway, match="was not started"):
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


@pytest.mark.parametrize("name", ["AWS_REGION", "TIDELINE_CACHE", "SPARK_LOCAL_DIRS", "TZ"])
def test_another_environment_has_another_driver(fake, monkeypatch, name):
    run()
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")  # of a task, not of a driver
    run()
    assert len(fake.started) == 1
    monkeypatch.setenv(name, "other")
    run()
    assert len(fake.started) == 2


def test_another_version_or_master_has_another_driver(fake, monkeypatch):
    run()
    run(master="local[3]")
    assert len(fake.started) == 2
    monkeypatch.setattr(local_driver, "source_digest", lambda: "newer")
    run()
    assert len(fake.started) == 3


def test_jars_or_java_replaced_under_their_names_have_another_driver(fake, tmp_path):
    """An upgrade in place: the driver that runs has loaded half of the old ones."""
    run()
    (tmp_path / "a.jar").write_text("newer")
    run()
    os.utime(tmp_path / "a.jar", (1, 1))
    run()
    assert len(fake.started) == 3
    (tmp_path / "a.jar").unlink()
    with pytest.raises(ServiceAway, match="upgrade"):
        run()


def test_another_umask_has_another_driver(fake):
    """It decides who may read a table's files, and would depend on who came first."""
    run()
    before = os.umask(0o077)
    try:
        run()
        run()
    finally:
        os.umask(before)
    assert len(fake.started) == 2


def test_a_driver_can_name_every_file(monkeypatch):
    """Java takes its encoding of names from the language, and cron sets none."""
    monkeypatch.setenv("LC_ALL", "POSIX")
    assert local_driver._environment()["LC_ALL"] == "C.UTF-8"


def test_a_log_that_somebody_has_tidied_away_stops_nobody(fake, sockets):
    """Tools that tidy /tmp remove a file that nobody has written for days."""
    run()
    (log,) = sockets.glob("*.log")
    log.unlink()
    (sockets / "lock").unlink()
    run()
    assert len(fake.started) == 1


def test_a_driver_gets_no_secret_of_a_task(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", "secret")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    assert "secret" not in local_driver._environment().values()


def test_a_driver_gets_absolute_paths(monkeypatch):
    """It works in another folder."""
    monkeypatch.setenv("TIDELINE_CACHE", "cache")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["plugins", "", "/dags"]))
    found = local_driver._environment()
    assert found["TIDELINE_CACHE"] == os.path.abspath("cache")
    assert found["PYTHONPATH"] == os.pathsep.join([os.path.abspath("plugins"), "/dags"])


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_a_folder_that_others_may_enter_is_not_shared(fake, sockets, mode):
    sockets.chmod(mode)
    run()
    run()
    assert len(fake.started) == 2  # each run has a driver of its own, in a folder of its own
    assert not list(sockets.iterdir())
    assert all('"keep_seconds": 0' in note for note in fake.notes if note != "started")


def test_a_folder_of_another_user_is_not_shared(sockets, monkeypatch):
    assert runtime.runtime_folder() == sockets
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert runtime.runtime_folder() is None


def test_the_session_folder_of_another_user_is_passed_over(monkeypatch, tmp_path):
    """`su` and `sudo -E` keep the variable; that user could exchange what lies there."""
    monkeypatch.delenv("TIDELINE_RUNTIME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert runtime.runtime_folder() == tmp_path / "tideline"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    assert runtime.runtime_folder() == Path(tempfile.gettempdir(), f"tideline-{os.geteuid()}")
    assert not (tmp_path / "none").exists()
    with monkeypatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        patch.setattr(os, "geteuid", lambda: 12345)
        patch.setattr(runtime, "_temporary", lambda: str(tmp_path / "tmp"))
        runtime.runtime_folder()
        assert (tmp_path / "tmp" / "tideline-12345").exists()


@pytest.mark.parametrize("keep_seconds", [0, 900])
def test_a_long_tmpdir_is_no_obstacle(fake, monkeypatch, tmp_path, keep_seconds):
    """A socket's path has at most 107 bytes."""
    long = tmp_path / ("long" * 20)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    if keep_seconds == 0:
        monkeypatch.setenv("TIDELINE_RUNTIME", str(long / "file"))
        (long / "file").touch()
        run(keep_seconds)
    else:
        monkeypatch.delenv("TIDELINE_RUNTIME")
        assert len(str(runtime.runtime_folder())) < 60


OTHER_USER = 65534


def as_another_user(work):
    """What a function prints in a process of another user, who may go anywhere."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            os.write(writing, str(work()).encode())
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    os.waitpid(pid, 0)
    return text


@pytest.fixture
def open_folder():
    """A folder that everybody may use, like /tmp; pytest's own are closed to others."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@pytest.mark.parametrize("way", ["variable", "tmp"])
def test_two_users_never_share_a_driver(fake, monkeypatch, open_folder, way):
    """Neither by the same TIDELINE_RUNTIME nor by the same /tmp."""
    if way == "variable":
        monkeypatch.setenv("TIDELINE_RUNTIME", str(open_folder / "run"))
    else:
        monkeypatch.delenv("TIDELINE_RUNTIME")
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    run()
    (address,) = open_folder.glob("*/*.socket")
    assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700

    def enters():
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect(str(address))

    assert "PermissionError" in as_another_user(enters)
    theirs = as_another_user(runtime.runtime_folder)
    assert theirs == ("None" if way == "variable" else str(open_folder / f"tideline-{OTHER_USER}"))
    run()
    assert len(fake.started) == 1


@pytest.mark.parametrize("planted", ["folder", "file", "link", "socket"])
def test_what_another_user_has_planted_is_not_used(fake, monkeypatch, open_folder, planted):
    """Names in /tmp can be guessed. The run goes on, with a driver of its own."""
    monkeypatch.delenv("TIDELINE_RUNTIME")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    place = open_folder / f"tideline-{os.geteuid()}"
    mine = open_folder / "mine"
    mine.mkdir(mode=0o700)

    def plant():
        if planted == "folder":
            place.mkdir(mode=0o700)
        elif planted == "file":
            place.touch()
        elif planted == "link":
            place.symlink_to(mine)
        else:
            socket.socket(socket.AF_UNIX).bind(str(place))

    assert as_another_user(plant) == "None"
    assert runtime.runtime_folder() is None
    run()
    run()
    assert len(fake.started) == 2
    assert not list(mine.iterdir())


@pytest.fixture
def small_disk():
    """A disk of 64 KiB with a folder on it."""
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", folder]
        try:
            subprocess.run(mount, check=True, capture_output=True)
        except (OSError, subprocess.SubprocessError):
            pytest.skip("no right to mount")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder):
    """Until not a byte fits."""
    with open(folder / "full", "wb", buffering=0) as file:
        while os.statvfs(folder).f_bavail:
            file.write(b"x" * 4096)


@pytest.mark.parametrize("word", ["works", "dies early", "dies"])
def test_a_full_disk_under_the_sockets(fake, monkeypatch, small_disk, word):
    """A driver's log stays empty; the run succeeds or fails as it would."""
    monkeypatch.setenv("TIDELINE_RUNTIME", str(small_disk))
    fill(small_disk)
    fake.plans(word)
    if word == "works":
        run()
        run()
    else:
        with pytest.raises(ServiceAway):
            run()
    fake.plans("works")
    (small_disk / "full").unlink()
    run()


def test_a_link_is_not_followed(sockets, monkeypatch, tmp_path):
    """Somebody may have put it there: names in /tmp can be guessed."""
    link = tmp_path / "link"
    link.symlink_to(sockets)
    monkeypatch.setenv("TIDELINE_RUNTIME", str(link))
    assert runtime.runtime_folder() is None


def test_a_folder_that_cannot_be_used_fails_as_retriable(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("TIDELINE_RUNTIME", str(tmp_path / ("long" * 30)))
    with pytest.raises(ServiceAway, match="TIDELINE_RUNTIME"):
        run()


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
    top = "\n".join(line for line in program.splitlines() if line.startswith(("import", "from")))
    large = {"pydantic", "pyspark", "ssl", "tideline.documents", "yaml"}
    looked = f"{top}\nassert not {large!r} & set(sys.modules), {large!r} & set(sys.modules)"
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "plugins")}
    subprocess.run([sys.executable, "-c", looked], env=path, check=True)
