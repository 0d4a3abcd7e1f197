"""Rows 20 and 23, no space left: for the table and for the ledger, page by page."""

import itertools
import os
import subprocess
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from tests.faults.oracle import assert_exact
from tests.worlds.ledgers import connect, create_tables
from tests.worlds.streams import folder_of, head

pytestmark = pytest.mark.slow

PAGE = 4096
"""What tmpfs gives out; so every further page lets a run get one file further."""

IN_STORE = os.environ.get("TIDELINE_TEST_STORE") == "s3"
STEP = {("ledger", "delta"): 6} if IN_STORE else {}
"""Pages more for each run, else one: in a store, a run that fails has been patient for seconds."""
SAID = ("No space", "disk is full")
"""What a run says of a disk."""
if IN_STORE:  # a store's server keeps the cause to itself; by object_store, and by Hadoop
    SAID += ("InternalError", "Status Code: 500")
PATIENCE = 400 if IN_STORE else 120
"""Seconds: S3A tries to write a manifest for two minutes."""


class SmallDisk:
    """A file system that can be filled.

    Args:
        folder: Where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def leave(self, pages: int) -> None:
        """Fill it but for so many pages."""
        free = os.statvfs(self.folder)
        size = free.f_bavail * free.f_frsize - pages * PAGE
        with open(self._ballast, "wb") as file:
            file.write(b"x" * max(size, 0))

    def free(self) -> None:
        """Take the ballast away."""
        self._ballast.unlink()


@pytest.fixture
def disk(harness):
    """A tmpfs of 16 MB in the lake; in a store, the server's disk has it there."""
    folder = folder_of(f"{harness.lake}/small")
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("whose", ["table", "ledger"])
def test_no_space_is_left(crash, disk, whose):
    """What is not committed is not there; with space again, the same run leaves one copy."""
    lake, elsewhere = f"{crash.harness.lake}/small/on", f"{crash.harness.lake}/off"
    uris = {"table": {"uri": lake if whose == "table" else elsewhere}}
    if crash.ledger == "delta":
        uris["ledger_uri"] = f"{lake if whose == 'ledger' else elsewhere}.ledger"
    elif whose == "ledger":
        url = URL.create("sqlite", database=str(disk.folder / "on.db"))
        connect(create_tables(url))
    crash.follow(**uris)
    failed = []
    for pages in itertools.count(step=STEP.get((whose, crash.ledger), 1)):
        crash.attempts = 0
        crash.send(10)
        written = dict(crash.log.written)
        known = head(crash.stream)
        disk.leave(pages)
        run_id = f"run-{pages}"
        with crash.start(run_id) as run:
            status = run.ended(PATIENCE)
            assert status in (0, 4), run.said
            if status == 4:
                assert any(words in run.said for words in SAID), run.said
        disk.free()
        failed.append(status == 4)
        seen = {row[:1] + row[2:4] for row in crash.rows()}
        assert seen <= set(written)
        assert len(seen) in (len(written), len(written) - 10)
        assert head(crash.stream) in (known, {(crash.topic, 0): len(written)}) or not known
        if status:
            crash.repeat(run_id)
        assert_exact(crash.stream, crash.log)
        crash.tell(f"no space for the {whose} after {pages} pages")
        if not status:
            break
    assert sum(failed) > 2
    crash.judge_crash(f"no space for the {whose}: all of these", lands_more=False)
