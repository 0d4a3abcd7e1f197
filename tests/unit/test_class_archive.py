"""The archive of Spark's classes: which one is whose, and that a run never needs it."""

import lzma
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


def test_set_up_writes_it_before_any_jvm_has_noted_something(command):
    found = ClassArchive(command)
    found.prepare()
    written = found.path.stat()
    assert files(found.path) == [found.path.name]
    assert ClassArchive(command).options()[0] == f"-XX:SharedArchiveFile={found.path}"
    ClassArchive(command).prepare()
    assert found.path.stat().st_ino == written.st_ino


def test_set_up_writes_none_for_a_spark_that_others_have_set_up(command, monkeypatch):
    """Its drivers are started by spark-submit, which knows of no archive."""
    monkeypatch.setattr(archive, "base_command", lambda *_: command)
    monkeypatch.setattr(archive, "find_java", lambda: None)
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "2g")
    archive.prepare_archives()
    assert not ClassArchive(command).path.exists()
    monkeypatch.delenv("SPARK_DRIVER_MEMORY")
    archive.prepare_archives()
    assert ClassArchive(command).path.exists()


def test_what_a_jvm_has_noted_is_archived_beside_what_is_known(command, tmp_path):
    """The first driver may have landed only; the next one decodes."""
    Path(command[0]).write_text(
        f"#!{sys.executable}\nimport shutil, sys\n"
        "given = dict(o.split('=') for o in sys.argv if '=' in o)\n"
        "shutil.copy(given['-XX:SharedClassListFile'], given['-XX:SharedArchiveFile'])\n"
    )
    found = ClassArchive(command)
    noted = Path(found.options()[0].partition("=")[2])
    noted.write_text("java/lang/Object id: 0\nour/own/Class id: 1\n")
    found.write()
    lines = found.path.read_text().splitlines()
    assert lines[:2] == ["java/lang/Object id: 0", "our/own/Class id: 1"]
    assert "java/lang/Object" not in lines
    assert "org/apache/spark/sql/classic/SparkSession" in lines


def test_the_known_classes_are_those_of_every_format_and_of_a_fold():
    """Kafka's, the decoders', Parquet's reader, the compiler of plans; nothing of one machine."""
    lines = lzma.decompress(archive.CLASSES.read_bytes()).decode().splitlines()
    for name in ("avro/Schema", "parquet/hadoop/ParquetFileReader", "kafka/common/utils/Crc32C"):
        assert f"org/apache/{name}" in lines
    assert {"org/codehaus/janino/Parser", "com/fasterxml/jackson/core/JsonParser"} < {*lines}
    assert not [line for line in lines if " source: " in line or " id: " in line]
    assert not [line for line in lines if line.startswith("tideline/")]
    assert not [line for line in lines if line.startswith("org/apache/spark/ml/")]


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
