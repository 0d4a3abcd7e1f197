"""Rows 21 and 23, the ledger: its answer lost, its store away, an older copy of it restored."""

import itertools
import shutil

import pytest

from devstack.command_line import finished, tideline
from tests.faults.crash import SENT
from tests.faults.ledgers import InFiles
from tests.faults.oracle import assert_exact
from tests.worlds.streams import decide, folder_of, head
from tideline.wiring import open_store

pytestmark = pytest.mark.slow


@pytest.fixture
def kept(crash, database):
    """The store that the ledger is in."""
    return database or InFiles(folder_of(f"{crash.harness.lake}/orders.ledger"))


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
        kept.go_away()
        run.resume()
        assert run.ended() == 4, run.said
        assert "ledger" in run.said
    assert not kept.is_there
    kept.come_back()
    crash.repeat()
    crash.judge_crash(f"ledger's store away from {place} on", lands_more=False)


def test_the_ledger_is_missing_when_a_run_starts(crash, kept):
    """R13: a table without its ledger is refused, and nothing is created in its place."""
    crash.waits()
    crash.repeat("zero")
    crash.send(20)
    kept.lose()
    status, answer, errors = finished(tideline("run", crash.file, "--json"))
    assert (status, answer["status"]) == (3, "halted")
    where = open_store(crash.stream.ledger_location).location
    for part in (where, crash.stream.table.uri, "bring the ledger back"):
        assert part in errors
    assert not kept.is_there
    kept.find()
    crash.attempts += 1
    crash.repeat()
    crash.verdict = "halted: table_changed, then one copy"
    crash.judge_crash("the ledger is missing when a run starts", lands_more=False)


def test_an_older_copy_of_the_ledger(crash, kept):
    """R13: it is told, and once that is approved nothing that stands is read again."""
    crash.waits()
    crash.repeat("one")
    kept.save()
    for number in range(3):
        crash.send(10)
        crash.repeat(f"newer-{number}")
    kept.restore()
    assert head(crash.stream)[crash.topic, 0] == SENT
    read = crash.spark.submits
    _taken_over(crash)
    assert crash.spark.submits == read
    crash.judge_crash("an older copy of the ledger restored")


def test_an_older_copy_of_the_ledger_in_the_middle_of_a_plan(crash, kept):
    """R3: the copy holds an open plan whose rows the table proves; they are not read again."""
    crash.waits()
    crash.dies("detect:frozen")
    kept.save()
    crash.repeat("one")
    kept.restore()
    read = crash.spark.submits
    crash.send(20)
    _taken_over(crash)
    crash.repeat("three")
    assert crash.spark.submits == read + 1
    crash.judge_crash("an older copy of the ledger, taken with a plan open")


def test_an_older_copy_of_the_ledger_and_the_log_has_moved_on(crash, kept):
    """R3: what the table holds is there, and is not lost because Kafka no longer has it."""
    crash.waits()
    crash.repeat("one")
    kept.save()
    crash.send(50)
    crash.repeat("newer")
    before = crash.rows()
    kept.restore()
    crash.harness.delete_records(before=130)
    _taken_over(crash)
    assert crash.rows() == before
    crash.judge_crash("an older copy of the ledger, and Kafka has deleted since")


def _taken_over(crash):
    """The run halts at the ledger's age, a person approves, and it goes on."""
    crash.halts("table_changed", run_id="two")
    decide(crash.stream, "approve")
    crash.verdict = "halted: table_changed, then one copy"
    crash.attempts = 0
    crash.repeat("two")


def test_older_copies_of_ledger_and_table(crash, kept):
    """Consistent with each other, they are just older: Kafka is read from there again."""
    crash.waits()
    crash.repeat("one")
    kept.save()
    table = folder_of(crash.stream.table.uri)
    copy = crash.harness.folder / "table-copy"
    shutil.copytree(table, copy)
    crash.send(50)
    crash.repeat("newer")
    kept.restore()
    shutil.rmtree(table)
    copy.rename(table)
    crash.spark.session.catalog.clearCache()
    crash.attempts = 0
    crash.repeat("two")
    crash.judge_crash("older copies of ledger and table restored together")
