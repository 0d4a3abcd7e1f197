"""Another program puts an older version of a table back, at any moment; who reads it notices."""

import pytest

from tests.simulation.run_events import tables_of
from tideline.errors import BadInput, FoldingHalted, ResetDetected, VerificationFailed
from tideline.folding.current_checking import check_current
from tideline.folding.current_tables import forgotten_folds
from tideline.folding.fold_steps import fold_changes, verify_current
from tideline.folding.views import view_of
from tideline.operations.erase_finding import AskedKeys
from tideline.operations.erasing import EraseRequest, erase, finish_erasures
from tideline.operations.maintaining import maintain_stream
from tideline.operations.redrive import decode_again
from tideline.pipeline.run_batch import decode_batch, fold_batch, land_batch

DECODE = {"value": {"format": "json"}, "quarantine": {"max_share": 1}}
CURRENT = {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}}
NIGHTLY = {**CURRENT, "every": "0 3 * * *"}


def put_back(table, rows):
    """`RESTORE TABLE ... TO VERSION AS OF`, as a commit of its own."""
    table.add_foreign(list(rows), "RESTORE", removes_rows=True)


def erase_now(world):
    """All changes of some keys, and the old files and logs with them."""
    run = world.open("erase")
    keys = AskedKeys(({"essay": "key-1"},), whole_keys=True)
    asked = EraseRequest(keys, "asked", "ann", most=1.0, is_now=True)
    assert erase(run, tables_of(run), asked).erasure.status == "done"


def rows_by_key(world):
    """Each key's last change: offset, and whether the row is gone."""
    return {r.change.key: (r.change.offset, r.change.is_deleted) for r in world.current.rows()}


@pytest.fixture
def waiting(memory):
    """Ten changes are folded, ten more are decoded and wait; `before` is the typed table then."""
    memory.configure(decode=DECODE, current=NIGHTLY)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(10)
    memory.run("one")
    fold_batch(memory.open("night-1"), "due")
    memory.before = [*memory.decoded.rows()]
    memory.send(10)
    memory.run("two")
    memory.newest = [*memory.decoded.rows()]
    return memory


@pytest.mark.parametrize("asked", ["due", "anew"])
def test_a_fold_of_a_typed_table_that_others_put_back_counts_nothing(waiting, asked):
    """The offsets are named, and what heals it; a restored table is folded as if nothing was."""
    put_back(waiting.decoded, waiting.before)
    folding = waiting.ledger().read().folding
    with pytest.raises(VerificationFailed, match=r"\[10, 20\).*decode FILE --again") as error:
        fold_batch(waiting.open("night-2"), asked)
    assert f"version {len(waiting.decoded.versions) - 1}" in str(error.value)
    assert waiting.ledger().read().folding == folding
    put_back(waiting.decoded, waiting.newest)
    fold_batch(waiting.open("night-3"), asked)
    assert waiting.is_clean()
    assert check_current(waiting.open("check")).flaws == ()
    assert waiting.ledger().read().folding.unfolded(waiting.ledger().read().decoding.coverage) == 0


def test_decoding_again_heals_a_typed_table_that_others_put_back(waiting):
    put_back(waiting.decoded, waiting.before)
    decode_again(waiting.open("again"))
    fold_batch(waiting.open("night-2"), "due")
    assert waiting.is_clean()
    assert check_current(waiting.open("check")).flaws == ()


def test_a_bucket_is_rebuilt_only_where_all_that_is_decoded_is_there(waiting):
    """A key's last change is none by now, so its bucket is made of changes of before as well."""
    fold_batch(waiting.open("night-2"), "due")
    waiting.spark.garbled = {20}
    decode_batch(waiting.open("two"))  # as after a clear: changes of this run alone are due
    put_back(waiting.decoded, (r for r in waiting.decoded.rows() if r.offset >= 10))
    assert waiting.ledger().read().folding.changed.offsets == 10
    with pytest.raises(VerificationFailed, match=r"\[0, 10\)"):
        fold_batch(waiting.open("night-3"), "due")
    assert waiting.ledger().read().folding.open is None


def test_quarantine_that_others_put_back_keeps_a_fold(waiting):
    """Its records are in neither table: they may have been decodable by now."""
    waiting.send(10)
    waiting.spark.garbled = {25}
    waiting.run("three")
    assert [r.offset for r in waiting.quarantine.rows()] == [24]
    put_back(waiting.quarantine, [])
    with pytest.raises(VerificationFailed, match=r"\[24, 25\)"):
        fold_batch(waiting.open("night"), "due")


def test_a_record_in_quarantine_keeps_no_fold(memory):
    """Nor does a tombstone that is dropped, nor what was erased."""
    memory.configure(decode={**DECODE, "tombstones": "drop"}, current=CURRENT)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(10)
    memory.spark.garbled = {5}
    memory.run("one")
    assert len(memory.decoded.rows()) < 9
    erase_now(memory)
    fold_batch(memory.open("healing"), "anew")
    assert memory.is_clean()


def test_nothing_is_decoded_of_a_raw_table_that_others_put_back(memory):
    """Rows that are gone would count as decoded: a run asks first."""
    memory.configure(decode=DECODE)
    memory.decode = memory.stream.decode
    memory.send(10)
    memory.run("one")
    before = [*memory.table.rows()]
    memory.send(10)
    land_batch(memory.open("two"))
    put_back(memory.table, before)
    with pytest.raises(ResetDetected, match="RESTORE"):
        decode_batch(memory.open("two"))
    assert memory.incident.finding.kind == "table_changed"
    assert [*memory.decoded.rows()] == before


@pytest.fixture
def folded(memory):
    """Two folds of six changes each; `before` is the current table after the first one."""
    memory.configure(decode=DECODE, current=CURRENT)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(6)
    memory.run("one")
    memory.before, memory.first = [*memory.current.rows()], len(memory.current.versions)
    memory.send(6)
    memory.run("two")
    memory.newest = [*memory.current.rows()]
    assert len(memory.newest) == len(memory.before)  # no number of rows tells them apart
    return memory


def older_copy(world):
    """An older copy of the current table in its place, log and all."""
    del world.current.versions[world.first :]


def older_copy_and_more(world):
    """The same, and others have written since: the newest version has the number of before."""
    back = len(world.current.versions)
    older_copy(world)
    while len(world.current.versions) <= back:
        world.current.add_foreign(world.current.rows(), "OPTIMIZE", removes_rows=False)


WAYS = {
    "RESTORE": lambda world: put_back(world.current, world.before),
    "an older copy": older_copy,
    "an older copy, and more commits": older_copy_and_more,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_fold_goes_on_over_a_current_table_that_others_put_back(folded, way):
    """It halts, whichever bucket the new change is in; a fold anew heals the table."""
    wanted = rows_by_key(folded)
    WAYS[way](folded)
    assert not folded.is_clean()
    folded.send(1)
    with pytest.raises(FoldingHalted, match="current_changed") as error:
        folded.run("three")
    assert "since version" in str(error.value)
    with pytest.raises(FoldingHalted):
        fold_batch(folded.open("again"), "due")
    fold_batch(folded.open("healing"), "anew")
    assert folded.is_clean()
    assert rows_by_key(folded).keys() >= wanted.keys()
    assert check_current(folded.open("check")).flaws == ()
    assert folded.ledger().read().folding.incidents == ()


@pytest.mark.parametrize("way", WAYS)
def test_a_fold_that_is_asked_for_notices_without_new_changes(folded, way):
    WAYS[way](folded)
    with pytest.raises(FoldingHalted, match="current_changed"):
        fold_batch(folded.open("asked"), "due")


def test_a_current_table_that_was_put_right_again_is_folded_on(folded):
    """Every bucket is summed, once; and nobody is asked."""
    put_back(folded.current, folded.before)
    put_back(folded.current, folded.newest)
    assert not folded.is_clean()  # an audit reads no rows
    fold_batch(folded.open("asked"), "due")
    assert folded.is_clean()
    versions = len(folded.current.versions)
    fold_batch(folded.open("nothing is due"), "due")
    assert len(folded.current.versions) == versions


def test_what_others_may_do_keeps_no_fold(folded):
    """Compaction and vacuum change no rows: no bucket is summed for them."""
    folded.current.add_foreign(folded.current.rows(), "OPTIMIZE", removes_rows=False)
    assert folded.is_clean()
    folded.send(1)
    folded.run("three")
    assert len(folded.ledger().find_fold("three").buckets) == 1
    assert folded.is_clean()


def test_a_fold_is_not_verified_over_what_others_put_back(folded):
    """Between its two steps; run again, it folds all anew."""
    folded.send(6)
    run = folded.open("three")
    land_batch(run)
    decode_batch(run)
    fold_changes(run)
    put_back(folded.current, folded.newest)
    with pytest.raises(VerificationFailed, match="RESTORE"):
        verify_current(run)
    folded.run("three")
    assert folded.is_clean()
    assert check_current(folded.open("check")).flaws == ()


def test_a_log_that_an_erasure_has_cut_is_known_from_there_on(folded):
    """Commits of before are gone with it, and tell nothing about others."""
    erase_now(folded)
    assert folded.current.log_start == len(folded.current.versions) - 1 > 3
    assert folded.is_clean()
    put_back(folded.current, folded.before)
    assert not folded.is_clean()


def test_a_log_is_cut_behind_what_has_deleted_files(folded):
    """delta-rs' own commits are the newest ones then, and say nothing of a fold."""
    folded.current.files["left by an attempt"] = []
    erase_now(folded)
    assert "VACUUM END" in [v.operation for v in folded.current.versions]
    assert folded.is_clean()
    put_back(folded.current, folded.before)
    assert not folded.is_clean()


def test_where_a_log_is_cut_an_older_ledger_learns_what_a_fold_has_sealed(folded):
    """The fold's own commit is gone with the log; the commit of the cut tells the same."""
    before = folded.ledger().read()
    erase_now(folded)
    newest = folded.current.versions[-1]
    assert str(newest.plan_id).endswith(".fenced")
    assert forgotten_folds(folded.open("look").current, before.folding)[0].fold
    assert not forgotten_folds(folded.open("look").current, folded.ledger().read().folding)


def test_a_log_that_was_cut_behind_other_commits_of_ours_stays_in_order(folded):
    """The fold's own commit is gone with it, and the one behind that: nobody has changed a row."""
    run = folded.open("erase")
    keys = AskedKeys(({"essay": "key-1"},), whole_keys=True)
    erase(run, tables_of(run), EraseRequest(keys, "asked", "ann", most=1.0))
    fold = folded.ledger().read().folding.known
    for number in range(2):
        folded.clock.milliseconds += 169 * 3_600_000
        folded.current.files[f"left by attempt {number}"] = []
        folded.send(1)
        land_batch(folded.open(f"lands-{number}"))  # by a newer token
        run = folded.open(f"maintain-{number}")
        maintain_stream(run, {"current": tables_of(run)["current"]})
    run = folded.open("goes on")
    (done,) = finish_erasures(run, tables_of(run))
    assert (done.status, folded.current.log_start > fold.version + 1) == ("done", True)
    assert folded.is_clean()


def test_no_query_is_made_over_what_others_put_back(folded):
    put_back(folded.current, folded.before)
    with pytest.raises(BadInput, match=r"RESTORE.*tideline fold FILE"):
        view_of(folded.open("view"), "spark", None, is_history=False)
