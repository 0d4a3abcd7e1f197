"""A real JVM whose archive of classes is damaged, or cannot be written."""

import shutil

import pytest

from tests.worlds.drivers import lands_once
from tideline.errors import ServiceAway
from tideline.launch.java import find_java
from tideline.launch.jvm import ClassArchive, base_command
from tideline.launch.local_driver import end_drivers


@pytest.mark.slow
def test_a_cache_that_cannot_be_written(harness, warm, cache):
    cache.touch()
    lands_once(harness, warm)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "empty", "other", "overwritten"])
def test_a_damaged_archive(harness, warm, cache, sockets, damage):
    """A JVM notices most damage and goes on without; where it crashes, the archive goes."""
    archive = ClassArchive(base_command(find_java()))
    written = cache.with_name("shared") / "archives" / archive.path.name
    archive.path.parent.mkdir(parents=True)
    if written.exists():  # some driver has written it
        shutil.copy(written, archive.path)
        archive.path.chmod(0o600)
    else:
        harness.run(warm, "earlier", None)
        end_drivers(seconds=600)  # it writes the archive
    size = archive.path.stat().st_size
    with archive.path.open("r+b") as file:
        if damage == "overwritten":
            for at in range(1_000_000, size, 1_000_000):
                file.seek(at)
                file.write(b"\xff" * 100_000)
        elif damage == "other":
            file.write(b"not an archive")
        else:
            file.truncate(0 if damage == "empty" else size // 2)
    harness.send(5)
    try:
        lands_once(harness, warm, 105)
    except ServiceAway:
        assert damage == "overwritten"
        assert not archive.path.exists()
        lands_once(harness, warm, 105)
