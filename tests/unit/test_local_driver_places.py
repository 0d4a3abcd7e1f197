"""Where a driver's socket lies, who may come near it, and a full disk under it."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from devstack.process import wait_until
from tests.worlds.fake_drivers import run
from tideline.errors import ServiceAway
from tideline.launch import runtime
from tideline.launch.local_driver import LocalDriver


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


NOBODY_LISTENS = """#!{python}
import os, struct, sys
told = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(told + ".draft", "wb") as file:
    file.write(struct.pack("!ii", 1, 6) + b"secret")
os.rename(told + ".draft", told)
sys.stdin.read()
"""


def test_a_driver_that_cannot_start_over_a_full_disk_ends_at_once(
    monkeypatch, small_disk, tmp_path
):
    """It cannot even say why. The real driver; its JVM is a script whose gateway refuses."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(NOBODY_LISTENS.replace("{python}", sys.executable))
    java.chmod(0o700)
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("TIDELINE_SPARK_JARS", "")
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDELINE_RUNTIME", str(small_disk))
    fill(small_disk)
    began = time.monotonic()
    with pytest.raises(ServiceAway):
        LocalDriver("local[2]", 900).submit(str(tmp_path / "job.json"))
    assert time.monotonic() - began < 60
    wait_until(lambda: not list(small_disk.glob("*.socket")), "the driver is still met", 30)
