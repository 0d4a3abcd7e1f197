"""Rows 21 and 23, the ledger: its answer lost, its store away, an older copy of it restored."""

import itertools
import shutil
from pathlib import Path

import pytest

from tests.faults.crash import SENT
from tests.faults.oracle import assert_exact
from tests.real import finished, head, tideline
from tideline.errors import Halted

pytestmark = pytest.mark.slow


@pytest.fixture
def kept(crash):
    """The folder of a ledger that lies in files."""
    if crash.ledger != "delta":
        pytest.skip(f"ledger: {crash.ledger}: its store is not a folder that a test can move")
    return Path(crash.world.folder, "lake", "orders.ledger")


@pytest.mark.parametrize("kind", ["away", "conflict"])
def test_the_answer_of_a_commit_is_lost(crash, kind):
    """Every change of the ledger can be made twice; each commit of a run is tried once."""
    crash.follow()
    for number in itertools.count(1):
        crash.attempts = 0
        crash.send(10)
        with crash.start(f"run-{number}", loses=(number, kind)) as run:
            status = run.ended()
            lost = "THE ANSWER IS LOST" in run.said
            assert status == 0 or (status, kind) == (4, "away"), run.said
        if status:
            crash.repeat(f"run-{number}")
        assert_exact(crash.stream, crash.log)
        if not lost:
            break
        crash.tell(f"the answer of the ledger's commit {number} is lost: {kind}")
    assert number > 8
    crash.judge_crash(f"all of these: {kind}", lands_more=False)


@pytest.mark.parametrize("place", ["plan:proposed", "ingest:leased", "ingest:released"])
def test_the_store_goes_away_in_the_middle_of_a_run(crash, kept, place):
    """No empty ledger takes the place of one that was there."""
    crash.waits()
    with crash.start("one", point=f"{place}:stop") as run:
        run.stopped()
        kept.rename(kept.with_suffix(".away"))
        run.resume()
        assert run.ended() == 4, run.said
        assert "orders.ledger" in run.said
    assert not kept.exists()
    kept.with_suffix(".away").rename(kept)
    crash.repeat()
    crash.judge_crash(f"ledger's store away from {place} on", lands_more=False)


def test_the_store_is_away_when_a_run_starts(crash, kept):
    """R13: a table without its ledger is refused, and nothing is created in its place."""
    crash.waits()
    crash.repeat("zero")
    crash.send(20)
    kept.rename(kept.with_suffix(".away"))
    status, answer, errors = finished(tideline("run", crash.file, "--json"))
    assert (status, answer["status"]) == (3, "halted")
    for part in (str(kept), crash.stream.table.uri, "bring the ledger back"):
        assert part in errors
    assert not kept.exists()
    kept.with_suffix(".away").rename(kept)
    crash.attempts += 1
    crash.repeat()
    crash.verdict = "halted: table_changed, then one copy"
    crash.judge_crash("ledger's store away when a run starts", lands_more=False)


def test_an_older_copy_of_the_ledger(crash, kept):
    """R3, R4, R5: what it does not know is read again over itself, with tokens above the table's.

    The way back is one run: no attempt is spent on tokens that the table has seen.
    """
    crash.waits()
    crash.repeat("one")
    shutil.copytree(kept, kept.with_suffix(".copy"))
    for number in range(3):
        crash.send(10)
        crash.repeat(f"newer-{number}")
    restore(kept)
    assert head(crash.stream)[crash.topic, 0] == SENT
    crash.attempts = 0
    crash.repeat("two")
    assert crash.attempts == 1
    crash.judge_crash("an older copy of the ledger restored")


def test_an_older_copy_of_the_ledger_in_the_middle_of_a_plan(crash, kept):
    """R3: the copy holds an open plan whose rows the table proves; they are not read again."""
    crash.waits()
    crash.dies("detect:frozen")
    shutil.copytree(kept, kept.with_suffix(".copy"))
    crash.repeat("one")
    restore(kept)
    read = crash.spark.submits
    crash.send(20)
    crash.repeat("two")
    assert crash.spark.submits == read + 1
    crash.judge_crash("an older copy of the ledger, taken with a plan open")


def test_an_older_copy_of_the_ledger_and_the_log_has_moved_on(crash, kept):
    """R3: what the table holds is there; what Kafka no longer has cannot be read again."""
    crash.waits()
    crash.repeat("one")
    shutil.copytree(kept, kept.with_suffix(".copy"))
    crash.send(50)
    crash.repeat("newer")
    before = crash.rows()
    restore(kept)
    crash.world.delete_records(before=130)
    crash.attempts = 0
    with pytest.raises(Halted):
        crash.repeat("two")
    assert crash.rows() == before
    for part in ("retention_loss", "[100, 130)", "Next:"):
        assert part in crash.said
    crash.tell("an older copy of the ledger, and Kafka has deleted since")


def test_older_copies_of_ledger_and_table(crash, kept):
    """Consistent with each other, they are just older: Kafka is read from there again."""
    crash.waits()
    crash.repeat("one")
    lake = kept.parent
    shutil.copytree(lake, lake.with_suffix(".copy"))
    crash.send(50)
    crash.repeat("newer")
    shutil.rmtree(lake)
    lake.with_suffix(".copy").rename(lake)
    crash.spark.session.catalog.clearCache()
    crash.attempts = 0
    crash.repeat("two")
    crash.judge_crash("older copies of ledger and table restored together")


def restore(kept):
    shutil.rmtree(kept)
    kept.with_suffix(".copy").rename(kept)
