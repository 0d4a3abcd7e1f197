"""The archive of Spark's classes: which one is whose, and that a run never needs it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tideline.launch import jvm as archive
from tideline.launch.jvm import ClassArchive


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A JVM of two jars that writes what it is told to."""
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.jar").write_text("a")
    (tmp_path / "b.jar").write_text("b")
    java = tmp_path / "java"
    java.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "draft = [o.split('=')[1] for o in sys.argv if o.startswith('-XX:SharedArchiveFile')]\n"
        "open(draft[0], 'w').write('classes')\n"
    )
    java.chmod(0o700)
    return [str(java), "-cp", f"{tmp_path}/a.jar:{tmp_path}/b.jar", "-Xmx1g"]


def files(path):
    return sorted(file.name for file in path.parent.iterdir() if file.name != "lock")


def test_an_archive_is_of_one_command(command, tmp_path):
    before = ClassArchive(command).path
    assert ClassArchive(command).path == before
    assert ClassArchive([*command, "-Xmx2g"]).path != before
    os.utime(tmp_path / "b.jar", (1, 1))
    touched = ClassArchive(command).path
    (tmp_path / "b.jar").write_text("longer")
    assert len({before, touched, ClassArchive(command).path}) == 3


def test_classes_are_noted_once_and_then_used(command):
    first = ClassArchive(command)
    assert first.options()[0].startswith("-XX:DumpLoadedClassList=")
    first.write()
    assert files(first.path) == [first.path.name]
    assert first.path.read_text() == "classes"
    assert ClassArchive(command).options()[0] == f"-XX:SharedArchiveFile={first.path}"


def test_what_failed_is_noted_no_more(command):
    first = ClassArchive(command)
    first.options()
    first.forget()
    assert files(first.path) == []
    first.write()  # nothing was noted
    assert files(first.path) == []


def test_a_cache_that_cannot_be_written_costs_nothing(command, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "file"))
    found = ClassArchive(command)
    assert found.options() == []
    found.write()
    found.discard()


@pytest.mark.parametrize(
    "script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nsleep 60\n", "not a program"]
)
def test_an_archive_that_cannot_be_written_leaves_nothing(command, script, monkeypatch):
    """The disk is full, or it takes too long."""
    Path(command[0]).write_text(script)
    monkeypatch.setattr(archive, "_WRITING_SECONDS", 0.3)
    found = ClassArchive(command)
    found.options()
    found.write()
    assert files(found.path) == []


def test_an_archive_with_which_a_jvm_crashed_goes(command):
    found = ClassArchive(command)
    found.options()
    found.write()
    found.discard()
    assert files(found.path) == []


def test_what_a_killed_writer_has_left_goes(command):
    """A container that is stopped while it writes would leave one each time."""
    found = ClassArchive(command)
    found.options()
    left = found.path.with_name("spark-other.123.draft")
    left.write_text("half an archive")
    found.write()
    assert files(found.path) == [found.path.name]


def test_one_process_writes(command, monkeypatch):
    """A machine that starts ten streams at once shall not work ten times."""
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("written twice"))
    one, found = ClassArchive(command), ClassArchive(command)
    found.options()
    with open(found.path.parent / "lock", "w") as lock:
        archive.fcntl.flock(lock, archive.fcntl.LOCK_EX)
        found.write()
    one.options()
    one.path.touch()
    one.write()
    assert files(one.path) == [one.path.name]


def test_what_nobody_has_used_for_weeks_goes(command):
    found = ClassArchive(command)
    found.options()
    old, used = found.path.with_name("spark-old.jsa"), found.path.with_name("spark-used.jsa")
    old.touch()
    used.touch()
    long_ago = time.time() - 15 * 86_400
    os.utime(old, (long_ago, long_ago))
    found.write()
    assert files(found.path) == sorted([found.path.name, used.name])
