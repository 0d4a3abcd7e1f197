"""Another stream's table in the place of one's own, while somebody sleeps who has looked before."""

from dataclasses import replace

import pytest

from tests.simulation.run_events import tables_of
from tests.simulation.table import Version, key_of
from tests.worlds.memory import stands_at, wakes
from tideline.errors import Halted
from tideline.model.request import RunRequest
from tideline.operations.erase_finding import AskedKeys
from tideline.operations.erasing import EraseRequest, erase, finish_erasures
from tideline.operations.maintaining import maintain_stream
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.run_batch import run_batch

CURRENT = {"key": ["k"], "table": {"buckets": 2}, "every": 0, "deletes": {"tombstone": False}}


@pytest.fixture
def folded(memory):
    """With typed tables and a current one, and what attempts have left beside the rows."""
    memory.configure(decode={"value": {"format": "json"}}, current=CURRENT)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(10)
    memory.run("one")
    memory.send(10)
    memory.run("two")
    for table in memory.every_table:
        table.files["left/1.parquet"] = ()
    return memory


def swapped(table):
    """Another stream's table takes the place: of as many versions, with rows at the same places."""
    before = [Version({}, "CREATE TABLE")] * (len(table.versions) - 1)
    theirs = [*before, replace(table.versions[-1], ledger_id="another", tokens={})]
    table.table_id, table.stream, table.ledger_id = "theirs", "another", "another"
    table.versions, table.files = [*theirs], {"theirs/1.parquet": ()}
    return theirs


def is_untouched(table, theirs):
    return (table.versions, [*table.files], table.log_start) == (theirs, ["theirs/1.parquet"], 0)


def doubted(folded):
    """Rows that no run has verified, of a log that was left; a person has decided that they go."""
    folded.send(5)
    folded.commit("three")
    folded.delete()
    folded.create()
    folded.send(30)
    folded.halts()
    folded.decide("restart")
    return lambda p: run_batch(folded.context(p, "next", RunRequest()))


def rewound(folded):
    asked = RewindRequest("one", "wrong filter", "ann", True)
    return lambda p: rewind_stream(folded.context(p, "rewind", RunRequest()), asked)


def merged(folded):
    return lambda p: maintain_stream(
        run := folded.context(p, "maintain", RunRequest()), {"raw": tables_of(run)["raw"]}
    )


@pytest.mark.parametrize("begun", [doubted, rewound, merged], ids=lambda begun: begun.__name__)
def test_no_row_is_taken_out_of_a_raw_table_of_another_stream(folded, begun):
    """R13: a removal does not ask what others did; whose table it writes to, it does."""
    process = stands_at(folded, "sleeps", "table:committing", begun(folded))
    theirs = swapped(folded.table)
    assert isinstance(wakes(process), Halted)
    assert is_untouched(folded.table, theirs)


@pytest.mark.parametrize(("name", "times"), [("decoded", 2), ("quarantine", 3)])
def test_no_row_is_taken_out_of_a_typed_table_of_another_stream(folded, name, times):
    """Two streams may decode the same topic: their rows are at the same coordinates."""
    process = stands_at(folded, "sleeps", "table:committing", rewound(folded), times)
    table = getattr(folded, name)
    theirs = swapped(table)
    assert isinstance(wakes(process), Halted)
    assert is_untouched(table, theirs)


def maintained(folded, name):
    return lambda p: maintain_stream(
        run := folded.context(p, "maintain", RunRequest()), {name: tables_of(run)[name]}
    )


@pytest.mark.parametrize("name", ["raw", "decoded", "current"])
def test_no_file_of_another_stream_is_deleted(folded, name):
    """R5: it may be of an attempt that is about to commit; a time of one's own says nothing."""
    process = stands_at(folded, "sleeps", "maintain:vacuuming", maintained(folded, name))
    table = {"raw": folded.table}.get(name) or getattr(folded, name)
    theirs = swapped(table)
    assert isinstance(wakes(process), Halted)
    assert is_untouched(table, theirs)


@pytest.mark.parametrize("left", [True, False], ids=["with files", "without"])
@pytest.mark.parametrize("name", ["table", "decoded", "quarantine", "current"])
def test_an_erasure_s_last_step_leaves_another_stream_s_table_alone(folded, name, left):
    """Weeks after its rows went: neither files nor log of that table are cut."""
    run = folded.open("erase")
    asked = EraseRequest(AskedKeys(raw_keys=(key_of(1),)), "asked", "ann", most=1.0)
    assert erase(run, tables_of(run), asked).erasure.status == "removed"
    folded.clock.milliseconds += 169 * 3_600_000
    table = getattr(folded, name)
    theirs = swapped(table)
    if not left:
        table.files.clear()
    run = folded.open("goes on")
    with pytest.raises(Halted, match="belongs to ledger another"):
        finish_erasures(run, tables_of(run))
    assert (table.versions, table.log_start, bool(table.files)) == (theirs, 0, left)
    assert [e.status for e in run.ledger.erasures()] == ["removed"]
