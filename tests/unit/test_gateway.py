"""A driver's JVM, played by a script: its start, what it does with an archive, its end."""

import os
import re
import signal
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.faults.processes import state
from tideline.launch import gateway, jvm
from tideline.launch.gateway import Jvm
from tideline.launch.java import Java
from tideline.launch.jvm import ClassArchive
from tideline.launch.runtime import PREFIX

JAVA = """#!{python}
import os, signal, struct, sys, time
here = os.path.dirname(__file__)
uses_archive = any(option.startswith("-XX:SharedArchiveFile") for option in sys.argv)
with open(here + "/notes", "a") as notes:
    notes.write(("archive" if uses_archive else "plain") + "\\n")
plan = open(here + "/plan").read()
def die():
    how = open(here + "/how").read()
    os.kill(os.getpid(), int(how[1:])) if how[0] == "-" else os._exit(int(how))
if plan == "always dies" or plan == "dies over its archive" and uses_archive:
    die()
told = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(here + "/place", "w") as file:
    file.write(os.getcwd() + " " + os.environ.get("AIRFLOW_CONN_LAKE", "no connection"))
with open(here + "/spills", "w") as file:
    file.write(os.environ.get("SPARK_LOCAL_DIRS", ""))
if plan == "starts slowly":
    time.sleep(0.3)
with open(told + ".draft", "wb") as file:
    file.write(struct.pack("!ii", 4711, 6) + b"secret")
os.rename(told + ".draft", told)
if plan == "dies later":
    while os.path.exists(told):  # whoever reads it takes it away; before, it has not started
        time.sleep(0.01)
    die()
if plan == "does not end":
    time.sleep(60)
sys.stdin.read()
"""


class Fake:
    """A java whose behaviour is a word in a file, and an archive for it."""

    def __init__(self, folder):
        self._folder = folder
        self.plans("works")

    def plans(self, word, how="1"):
        (self._folder / "plan").write_text(word)
        (self._folder / "how").write_text(str(how))

    @property
    def starts(self):
        return (self._folder / "notes").read_text().split()

    @property
    def archives(self):
        return list((self._folder / "cache").rglob("*.jsa"))


@pytest.fixture
def java(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    binary = tmp_path / "java"
    binary.write_text(JAVA.replace("{python}", sys.executable))
    binary.chmod(0o700)
    (tmp_path / "a.jar").touch()
    found = Java(tmp_path, binary)
    for module in (gateway, jvm):
        monkeypatch.setattr(module, "find_java", lambda: found)
    monkeypatch.setattr(
        gateway, "base_command", lambda *_, **__: [str(binary), "-cp", f"{tmp_path}/a.jar"]
    )
    with monkeypatch.context() as patch:
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_HOME", "JAVA_HOME"):
            patch.setenv(name, "")  # `open_gateway` sets them; put back afterwards
        for name in ("SPARK_LOCAL_IP", "_PYSPARK_DRIVER_CONN_INFO_PATH"):
            patch.setenv(name, "")
        yield Fake(tmp_path)


def with_archive(java):
    """A JVM that finds an archive."""
    path = ClassArchive(gateway.base_command(None)).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("classes")
    return Jvm("local")


def test_the_gateway_is_told_to_pyspark(java, tmp_path, monkeypatch):
    """Port and secret come through a file in a folder of its own, and the file goes."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", "secret")
    java.plans("starts slowly")
    found = Jvm("local[2]")
    assert found.is_alive
    found.open_gateway()
    assert os.environ["PYSPARK_GATEWAY_PORT"] == "4711"
    assert os.environ["PYSPARK_GATEWAY_SECRET"] == "secret"
    assert not found._told.exists()
    assert found.is_alive
    place, connection = (tmp_path / "place").read_text().split(" ", 1)
    assert Path(place) == found._folders[0].path  # private; whoever starts it, wherever
    assert connection == "no connection"
    assert found.end() == 0
    assert not found.is_alive


@pytest.mark.parametrize("named", ["", "one,two"])
def test_what_spills_is_private(java, monkeypatch, tmp_path, named):
    """Where the site says, or beside other temporary files; Spark's own folders are for all.

    They go when it ends, and those of a killed driver with the next one.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    places = [tmp_path / name for name in named.split(",")]
    if named:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(map(str, places)))
    for place in places:
        (place / f"{PREFIX}left" / "blockmgr").mkdir(parents=True)
    found = Jvm("local")
    found.open_gateway()
    told = [Path(name) for name in (tmp_path / "spills").read_text().split(",")]
    assert [folder.parent for folder in told] == places
    assert [folder.stat().st_mode & 0o777 for folder in told] == [0o700] * len(told)
    assert sorted(told) == sorted(tmp_path.rglob(f"{PREFIX}*"))
    found.end()
    assert not list(tmp_path.rglob(f"{PREFIX}*"))


@pytest.mark.parametrize("how", [1, -signal.SIGBUS, -signal.SIGSEGV, -signal.SIGABRT])
def test_an_archive_over_which_it_crashes_goes(java, how):
    """It is started once more, without; nobody meets that archive again."""
    java.plans("dies over its archive", how)
    found = with_archive(java)
    found.open_gateway()
    assert java.starts == ["archive", "plain"]
    assert java.archives == []
    assert found.end() == 0


@pytest.mark.parametrize("how", [1, -signal.SIGBUS])
def test_an_archive_stays_if_it_crashes_without_as_well(java, how):
    """Its disk is full, or there is no memory: that is no fault of the archive."""
    java.plans("always dies", how)
    found = with_archive(java)
    with pytest.raises(RuntimeError, match=f"ended with status {how}"):
        found.open_gateway()
    assert not found.is_alive
    assert java.starts == ["archive", "plain"]
    assert len(java.archives) == 1


@pytest.mark.parametrize("how", [3, -signal.SIGKILL])
def test_an_archive_outlives_what_it_does_not_cause(java, how):
    """No memory, or somebody has killed it: it is not started again, and the archive stays."""
    java.plans("dies over its archive", how)
    found = with_archive(java)
    with pytest.raises(RuntimeError):
        found.open_gateway()
    found.end()
    assert java.starts == ["archive"]
    assert len(java.archives) == 1


@pytest.mark.parametrize(
    ("how", "stays"), [(-signal.SIGBUS, False), (-signal.SIGKILL, True), (1, True), (3, True)]
)
def test_an_archive_over_which_it_crashes_later_goes_too(java, how, stays):
    """A page that was cut off is met at any time."""
    java.plans("dies later", how)
    found = with_archive(java)
    found.open_gateway()
    found.why_ended()
    assert found.end() == how
    assert bool(java.archives) == stays


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (3, "out of memory.*another stream.*SPARK_DRIVER_MEMORY.*frozen"),
        (-9, "-9; the kernel kills"),
        (134, "status 134"),
    ],
)
def test_what_ended_it_is_said(java, how, said):
    """PySpark itself only says that nobody answers."""
    java.plans("dies later", how)
    found = Jvm("local")
    found.open_gateway()
    assert re.search(said, found.why_ended())


def test_one_that_runs_has_not_ended(java, monkeypatch):
    monkeypatch.setattr(gateway, "_ENDING_SECONDS", 0.1)
    found = Jvm("local")
    found.open_gateway()
    assert found.why_ended() is None
    found.end()


def test_one_that_does_not_end_is_killed(java, monkeypatch):
    """A JVM that was stopped reads no end of its input."""
    monkeypatch.setattr(gateway, "_END_SECONDS", 0.2)
    java.plans("does not end")
    found = Jvm("local")
    found.open_gateway()
    pid = found._process.pid
    assert found.end() == -signal.SIGKILL
    assert state(pid) == ""


@pytest.mark.parametrize("has_worked", [True, False])
def test_only_what_a_job_has_loaded_becomes_an_archive(java, monkeypatch, has_worked):
    niced = []
    monkeypatch.setattr(os, "nice", niced.append)
    found = Jvm("local")
    found.open_gateway()
    found.end()
    found.tidy(has_worked=has_worked)
    assert niced == [19] * has_worked
    assert java.starts == ["plain", "archive"][: 1 + has_worked]  # the dump names an archive, too
    assert not list(Path(os.environ["TIDELINE_CACHE"]).rglob("*.classes"))


def test_an_end_may_be_asked_for_while_it_starts(java):
    """SIGTERM comes at any time: what waits for the gateway ends as well."""
    java.plans("works")
    found = Jvm("local")
    said = []

    def opens():
        try:
            found.open_gateway()
        except (RuntimeError, OSError) as error:
            said.append(error)

    thread = threading.Thread(target=opens, daemon=True)
    thread.start()
    found.end()
    thread.join(10)
    assert not thread.is_alive()
