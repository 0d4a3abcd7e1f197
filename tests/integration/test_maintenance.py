"""Maintenance of real Delta tables: fewer files, the same rows, whoever else is at work."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.integration.aging import age
from tests.worlds.build import ID, plan, planned
from tests.worlds.damage import spoil_page
from tests.worlds.lake import Lake, rows
from tideline.delta.delta_log import DeltaLog
from tideline.errors import (
    AttemptFenced,
    CommitConflict,
    Halted,
    ServiceAway,
    StreamBusy,
    VerificationFailed,
)
from tideline.landing.attempts import Attempt, begin_attempt
from tideline.landing.context import TypedTables
from tideline.landing.table_commit import remove
from tideline.operations import maintaining
from tideline.operations.maintaining import maintain_stream
from tideline.operations.questions import require_clean
from tideline.rules.upkeep import plan_merges
from tideline.stream.stream import Stream
from tideline.table import delta_table, rewriting
from tideline.table.maintained_table import MaintainedTable
from tideline.table.schema import (
    COMPACTION_ID,
    QUARANTINE_COLUMNS,
    TYPED_COLUMNS,
    delta_fields,
    removal_id,
)
from tideline.wiring import open_ledger, open_tables


class Meddled(MaintainedTable):
    """Somebody does something between the merge and the commit."""

    then = None

    def merge(self, change, groups):
        merges = super().merge(change, groups)
        meddle, self.then = self.then, None
        meddle()
        return merges


def maintain(lake, **asked):
    (upkeep,) = maintain_stream(lake.run, open_tables(lake.stream), **asked)
    return upkeep


def maintain_meddled(lake, meddle):
    table = Meddled(lake.uri)
    table.then = meddle
    return maintain_stream(lake.run, {"raw": table})


def content(lake, *columns):
    names = columns or ("partition", "offset", "value", "plan_id")
    table = DeltaTable(lake.uri).to_pyarrow_table(columns=list(names))
    return sorted(zip(*table.to_pydict().values(), strict=True))


def files(lake):
    return sorted(DeltaTable(lake.uri).file_uris())


def newest_commit(lake):
    return lake.log(DeltaTable(lake.uri).version())


def stray(lake, name, hours=200):
    """A file that an attempt has left."""
    path = Path(lake.uri, name)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"left")
    age(path, hours)
    return path


def test_small_files_become_one_per_log(lake):
    """The rows stay, in their order; Delta hears that no data changed; a second time, nothing."""
    before = content(lake)
    done = maintain(lake)
    assert (done.before.active.files, done.merged.files, done.written.files) == (4, 4, 2)
    assert done.after.active.files == len(files(lake)) == 2
    assert done.after.active.bytes == done.written.bytes
    assert done.after.stored.files == 6
    assert content(lake) == before
    (path,) = [f for f in files(lake) if "partition=0" in f]
    assert "/landed-maintenance.compacted-" in path
    assert pq.read_table(path, partitioning=None)["offset"].to_pylist() == list(range(200))
    actions = [
        a.get("add") or a.get("remove") for a in newest_commit(lake) if "commitInfo" not in a
    ]
    assert [a["dataChange"] for a in actions if a and "dataChange" in a] == [False] * 6
    assert require_clean(lake.run).rows == 400
    again = maintain(lake)
    assert (again.merged.files, again.vacuumed.files, again.after) == (0, 0, again.before)


def test_a_dry_run_changes_nothing(lake):
    """Neither the table nor the ledger; it says what would be done."""
    stray(lake, "landed-old-1/part.parquet")
    known = (DeltaTable(lake.uri).version(), files(lake), lake.ledger.read())
    asked = maintain(lake, dry_run=True)
    assert (asked.merged.files, asked.written.files, asked.after) == (4, 2, None)
    assert (asked.vacuumed.files, asked.vacuumed.bytes) == (1, 4)
    assert (DeltaTable(lake.uri).version(), files(lake), lake.ledger.read()) == known
    done = maintain(lake)
    assert (done.merged, done.vacuumed) == (asked.merged, asked.vacuumed)


def test_a_stream_without_a_table_gets_neither_table_nor_ledger(tmp_path):
    """Nothing was landed yet."""
    new = Lake(tmp_path)
    assert maintain_stream(new.run, open_tables(new.stream)) == ()
    assert list(tmp_path.iterdir()) == []


def test_others_appends_meanwhile_are_no_conflict(lake):
    """The commit is made on top of them."""
    meddle = lambda: lake.append(rows(900, 901))  # noqa: E731
    before = content(lake)
    (done,) = maintain_meddled(lake, meddle)
    assert (done.merged.files, done.after.active.files) == (4, 3)
    assert len(content(lake)) == len(before) + 1


@pytest.mark.parametrize(
    ("meddle", "left"),
    [
        (lambda lake: DeltaTable(lake.uri).delete("offset = 3"), 398),
        (lambda lake: DeltaTable(lake.uri).optimize.compact(), 400),
        (lambda lake: DeltaTable(lake.uri).optimize.z_order(["offset"]), 400),
        (lambda lake: DeltaTable(lake.uri).restore(1), 200),
        (lambda lake: merge_anew(lake), 400),
    ],
    ids=["delete", "compact", "z_order", "restore", "ours"],
)
@pytest.mark.parametrize("late", [False, True])
def test_whoever_changed_the_files_first_wins(lake, monkeypatch, meddle, left, late):
    """No row is doubled and none comes back, even if it happens during the transaction."""
    before, real = DeltaTable(lake.uri).version(), delta_table.commit_change
    if late:

        def committing(*given):
            monkeypatch.setattr(delta_table, "commit_change", real)
            meddle(lake)
            real(*given)

        monkeypatch.setattr(delta_table, "commit_change", committing)
    with pytest.raises((AttemptFenced, CommitConflict)):
        maintain_meddled(lake, (lambda: None) if late else (lambda: meddle(lake)))
    found = content(lake, "partition", "offset")
    assert (len(found), len(set(found))) == (left, left)
    assert DeltaTable(lake.uri).version() > before
    versions = range(DeltaTable(lake.uri).version() + 1)
    named = {a["add"]["path"] for v in versions for a in lake.log(v) if "add" in a}
    folders = {p.name for p in Path(lake.uri).glob("landed-*")}
    assert folders == {path.split("/")[0] for path in named if path.startswith("landed-")}


def merged_by_ours(lake):
    """A change with merges of all small files, as a process of ours that has begun an attempt."""
    table = MaintainedTable(lake.uri)
    state = open_ledger(lake.stream).update(lambda s: s.with_next_token())
    change = Attempt(lake.run, state).change(COMPACTION_ID)
    groups = plan_merges(table.files(), below_bytes=10**6, target_bytes=10**6)
    return table, replace(change, merges=table.merge(change, groups))


def merge_anew(lake):
    table, change = merged_by_ours(lake)
    table.commit(change, (), table.size().version)


def test_a_merge_of_files_that_are_gone_is_refused(lake):
    """delta-rs takes out what is not there without a word."""
    table, change = merged_by_ours(lake)
    DeltaTable(lake.uri).optimize.compact()
    with pytest.raises(CommitConflict, match="no longer part of it"):
        table.commit(change, (), table.size().version)
    assert len(content(lake)) == 400


def test_columns_that_only_some_files_have(lake):
    """Somebody gave the table a column, and wrote rows with it; others have none."""
    extra = rows(200, 210).append_column("note", pa.array(["seen"] * 10))
    write_deltalake(lake.uri, extra, mode="append", schema_mode="merge")
    assert maintain(lake).after.active.files == 2
    found = content(lake, "partition", "offset", "note")
    assert [r[2] for r in found if r[1] >= 200] == ["seen"] * 10
    assert {r[2] for r in found if r[1] < 200} == {None}


def test_what_others_have_compacted_is_merged_with_the_rest(lake):
    """Files of several logs go to their like."""
    DeltaTable(lake.uri).optimize.compact()
    lake.land("third", 200, 300)
    before = content(lake)
    done = maintain(lake)
    assert (done.before.active.files, done.after.active.files) == (4, 2)
    assert content(lake) == before
    assert require_clean(lake.run).rows == 600
    DeltaTable(lake.uri).optimize.compact()
    assert require_clean(lake.run).rows == 600


def test_a_removal_finds_its_rows_in_merged_files(lake):
    """As rewinds and replays do: by coordinates."""
    maintain(lake)
    run = lake.run
    with run.ledger.lease("writer"):
        attempt = begin_attempt(run, lake.ledger.read().control.ledger_id)
        remove(run, attempt.change(removal_id("m"), [planned(50, 150)]), after_version=0)
    found = {r[1] for r in content(lake) if r[0] == 0}
    assert found == set(range(50)) | set(range(150, 200))
    assert sum(r[0] == 1 for r in content(lake)) == 200


def test_large_values_are_merged_a_part_at_a_time(lake, monkeypatch):
    """Memory does not grow with the files."""
    large = [rows(n, n + 50) for n in range(200, 400, 50)]
    for table in large:
        values = pa.array([bytes([1]) * 20_000] * len(table), pa.binary())
        at = table.column_names.index("value")
        lake.append(table.set_column(at, "value", values))
    monkeypatch.setattr(rewriting, "_BATCH_BYTES", 100_000)
    monkeypatch.setattr(rewriting, "_GROUP_BYTES", 1_000_000)
    seen = []
    real = pq.ParquetWriter.write_table

    def watched(self, table, *given, **named):
        seen.append(table.nbytes)
        real(self, table, *given, **named)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", watched)
    before = content(lake)
    maintain(lake)
    assert len(seen) >= 4
    assert max(seen) < 2_500_000
    assert content(lake) == before


def test_a_file_that_is_not_what_the_log_says_is_not_merged(lake):
    """Merging would make its state the log's, and hide what was lost."""
    lake.replace_file(rows(0, 90))
    before = files(lake)
    with pytest.raises(VerificationFailed, match="holds 90 rows, the log says 100"):
        maintain(lake)
    spoil_page(lake.file())
    with pytest.raises(VerificationFailed, match="cannot be merged"):
        maintain(lake)
    lake.file().write_bytes(b"damaged")
    with pytest.raises(VerificationFailed, match="cannot be merged"):
        maintain(lake)
    lake.file().unlink()
    with pytest.raises(VerificationFailed, match="it is gone"):
        maintain(lake)
    assert files(lake) == before


def test_types_that_do_not_fit_are_left_alone(lake):
    """A column that the table does not know, once a number and once a text."""
    for path, value in ((lake.file(), 1), (Path(lake.uri, lake.added(2, 0)[0]), "one")):
        data = pq.read_table(path, partitioning=None)
        pq.write_table(data.append_column("own", pa.array([value] * len(data))), path)
    done = maintain(lake)
    assert (done.merged.files, done.after.active.files) == (2, 3)
    assert require_clean(lake.run).rows == 400


def test_vacuum_takes_what_attempts_have_left_and_nothing_newer(lake):
    """Orphans and replaced files of long ago go; what a running attempt writes stays."""
    old = stray(lake, "landed-plan-x-1/topic_id=t/part.parquet")
    new = stray(lake, "landed-plan-y-9/part.parquet", hours=100)
    staged = stray(lake, "_temporary/part.parquet")
    age(Path(lake.uri))
    os.utime(new)
    done = maintain(lake)
    assert done.vacuumed.files == 1
    assert (old.exists(), new.exists(), staged.exists()) == (False, True, True)
    assert require_clean(lake.run).rows == 400


def test_replaced_files_stay_until_their_time_has_come(lake):
    """Readers of older versions have that long, and a table may ask for more."""
    maintain(lake)
    versions = DeltaTable(lake.uri).version()
    assert len(DeltaTable(lake.uri, version=versions - 1).to_pyarrow_table()) == 400
    _long_ago(lake)
    DeltaTable(lake.uri).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 100 days"}
    )
    assert maintain(lake).vacuumed.files == 0
    DeltaTable(lake.uri).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 5 days"}
    )
    done = maintain(lake)
    assert (done.vacuumed.files, done.after.stored.files) == (4, 2)
    assert require_clean(lake.run).rows == 400
    lake.land("third", 200, 300)
    assert require_clean(lake.run).rows == 600


def test_removed_files_are_kept_as_long_as_the_stream_says(lake):
    """Every checkpoint knows them as long: files that none knows would be nobody's."""
    lake.stream = lake.stream.model_copy(
        update={"maintenance": lake.stream.maintenance.model_copy(update={"vacuum_hours": 720})}
    )
    maintain(lake)
    _long_ago(lake)
    for path in Path(lake.uri).rglob("*.parquet"):
        os.utime(path, (1, 1))
    log = DeltaLog(lake.uri, {})
    log.write_checkpoint(log.newest())
    DeltaTable(lake.uri).create_checkpoint()
    assert maintain(lake).vacuumed.files == 0


def _long_ago(lake):
    """Put the removals of the newest commit, and all files, back by 200 hours."""
    version = DeltaTable(lake.uri).version()
    actions = lake.log(version)
    for action in actions:
        if "remove" in action:
            action["remove"]["deletionTimestamp"] -= 200 * 3_600_000
    lake.write_log(version, *actions)
    age(Path(lake.uri))


@pytest.fixture
def typed(lake, tmp_path):
    """The stream decodes: two more tables, with files of two attempts each."""
    values = lake.stream.model_dump(include={"stream", "kafka", "table"}, exclude_unset=True)
    places = {name: {"uri": str(tmp_path / name)} for name in ("table", "quarantine")}
    decode = {"value": {"format": "json", "subject": "v"}, **places}
    lake.stream = Stream.model_validate({**values, "registry": {}, "decode": decode})
    ledger_id = lake.ledger.read().control.ledger_id
    fields = {"decoded": TYPED_COLUMNS, "quarantine": QUARANTINE_COLUMNS}
    for role, columns in fields.items():
        table = open_tables(lake.stream)[role]
        table.create("orders", ledger_id, [], delta_fields(columns))
        for start in (0, 100):
            landed = rows(start, start + 100)
            kept = landed.select([n for n in landed.column_names if n in columns])
            write_deltalake(table.uri, kept, mode="append", schema_mode="merge")
    return lake


def decodes(lake):
    """A run's context, whose stream has typed tables."""
    tables = open_tables(lake.stream)
    run = replace(lake.run, typed=TypedTables({"": tables["decoded"]}, tables["quarantine"]))
    return run, tables


def test_typed_table_and_quarantine_are_maintained_too(typed):
    """Each with tokens of its own."""
    run, tables = decodes(typed)
    for table in tables.values():
        stray(SimpleNamespace(uri=table.uri), "landed-plan-x-1/part.parquet")
    done = maintain_stream(run, tables)
    assert [(u.table, u.before.active.files, u.after.active.files) for u in done] == [
        ("raw", 4, 2),
        ("decoded", 2, 1),
        ("quarantine", 2, 1),
    ]
    assert [u.vacuumed.files for u in done] == [1, 1, 1]
    assert [
        len(DeltaTable(t.uri).to_pyarrow_table(columns=["offset"])) for t in tables.values()
    ] == [
        400,
        200,
        200,
    ]
    assert require_clean(typed.run).rows == 400


def test_nothing_is_deleted_while_a_decoding_reads(typed):
    """Its Spark was given the names of the raw files."""
    run, tables = decodes(typed)
    with (
        open_ledger(typed.stream).lease("decoder"),
        pytest.raises(StreamBusy, match="decoder lease is held"),
    ):
        maintain_stream(run, {"raw": tables["raw"]})
    with open_ledger(typed.stream).lease("writer"):  # landing and typed tables go together
        (done,) = maintain_stream(run, {"decoded": tables["decoded"]})
    assert done.after.active.files == 1


def test_a_table_of_another_stream_is_left_alone(typed):
    """Its name and its ledger stand in its properties."""
    run, tables = decodes(typed)
    DeltaTable(tables["decoded"].uri).alter.set_table_properties(
        {"tideline.stream": "others"}, raise_if_not_exists=False
    )
    with pytest.raises(Halted, match="belongs to another stream"):
        maintain_stream(run, tables)


def test_an_attempt_that_was_stopped_cannot_commit_files_that_are_gone(lake):
    """R5: before anything is deleted, the table learns a newer token."""
    state = lake.ledger.update(lambda s: s.with_next_token())
    run = lake.open("stopped")
    doing = plan(planned(200, 210), plan_id="plan-z")
    change = Attempt(run, state).change(doing.plan_id, doing.ranges)
    path = stray(lake, f"{change.folder}/part.parquet")
    data = rows(200, 210).drop_columns(["topic_id", "partition"])
    target = path.with_name(f"topic_id={ID}") / "partition=0" / "part.parquet"
    target.parent.mkdir(parents=True)
    pq.write_table(data, target)
    age(path.parent)
    lake.stream = lake.stream.model_copy(
        update={"maintenance": lake.stream.maintenance.model_copy(update={"compact_below_mb": 0})}
    )  # nothing is merged: no other token is committed
    assert maintain(lake).vacuumed.files == 2
    table = MaintainedTable(lake.uri)
    with pytest.raises(CommitConflict, match="it has token"):
        table.commit(change, [str(target.relative_to(lake.uri))], table.size().version)
    assert len(content(lake)) == 400


def test_nothing_is_done_while_somebody_writes(lake):
    """Exit status 4; a dry run only looks."""
    with open_ledger(lake.stream).lease("writer"):
        with pytest.raises(StreamBusy, match="writer lease is held"):
            maintain(lake)
        assert maintain(lake, dry_run=True).merged.files == 4
    assert len(files(lake)) == 4


def test_a_table_about_which_somebody_has_to_decide_is_left_alone(lake):
    """Its older versions may be what brings the rows back (R13)."""
    DeltaTable(lake.uri).delete("offset = 3")
    before = DeltaTable(lake.uri).version()
    for asked in ({}, {"dry_run": True}):
        with pytest.raises(Halted, match=r"removed, restored or replaced.*next run opens"):
            maintain(lake, **asked)
    assert DeltaTable(lake.uri).version() == before
    assert lake.ledger.read().control.incidents == ()


class Died(Exception):
    """The process ends here."""


@pytest.mark.parametrize("place", ["merged", "committed", "vacuuming", "vacuumed"])
def test_maintenance_that_ends_early_is_gone_on_with(lake, monkeypatch, place):
    """Whatever was done stays done, and nothing is doubled."""
    stray(lake, "landed-plan-x-1/part.parquet")
    real = maintaining.reach

    def dies(at):
        if at == f"maintain:{place}":
            raise Died
        real(at)

    monkeypatch.setattr(maintaining, "reach", dies)
    with pytest.raises(Died):
        maintain(lake)
    monkeypatch.undo()
    assert len(content(lake)) == 400
    assert require_clean(lake.run).rows == 400
    maintain(lake)
    assert len(files(lake)) == 2
    assert maintain(lake).merged.files == 0
    assert require_clean(lake.run).rows == 400


def test_a_commit_whose_answer_was_lost_is_found(lake, monkeypatch):
    """It is not made twice."""
    real = MaintainedTable.commit

    def lost(self, *given):
        real(self, *given)
        raise ServiceAway("the answer was lost")

    monkeypatch.setattr(MaintainedTable, "commit", lost)
    done = maintain(lake)
    assert (done.after.active.files, len(content(lake))) == (2, 400)


def test_large_tables_are_merged_in_several_transactions(lake, monkeypatch):
    """A conflict or a crash loses one of them."""
    monkeypatch.setattr(maintaining, "_ROUND_BYTES", 1)
    before = DeltaTable(lake.uri).version()
    assert maintain(lake).after.active.files == 2
    assert DeltaTable(lake.uri).version() == before + 2


def test_the_metadata_of_the_commit_names_the_ledger(lake):
    """So later checks know it for ours, and no plan finds it."""
    maintain(lake)
    (info,) = [a["commitInfo"] for a in newest_commit(lake) if "commitInfo" in a]
    said = json.loads(info["userMetadata"])
    assert said["ledger_id"] == lake.ledger.read().control.ledger_id
    assert (said["plan_id"], said["ranges"]) == ("maintenance.compacted", [])
