"""Files of the table, and the commit that replaces them: what delta-rs and Parquet bring along."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import LocalFileSystem

from tests.worlds.build import ID
from tests.worlds.rows import SCHEMA
from tests.worlds.tables import DeltaWorld, Rows, change, coordinates
from tideline.errors import (
    BadInput,
    CommitConflict,
    Halted,
    ServiceAway,
    VerificationFailed,
)
from tideline.model.offsets import CoordinateRange
from tideline.table import delta_table, rewriting
from tideline.table.delta_table import TargetTable
from tideline.table.opened import active_files
from tideline.table.written_files import read_footer


def at(start, end, partition=0):
    return CoordinateRange("orders", ID, 0, partition, start, end)


@pytest.fixture
def world(tmp_path):
    return DeltaWorld(tmp_path / "t")


def test_a_commit_of_others_during_the_transaction_is_a_conflict(world, monkeypatch):
    """R2: delta-rs would rebase it by itself, and nobody had looked at the rows."""
    real = delta_table.commit_change

    def late(*given):
        world.append(Rows(at(0, 10)))
        real(*given)

    monkeypatch.setattr(delta_table, "commit_change", late)
    doing = change(at(0, 10))
    result = world.write(doing, Rows(at(0, 10)))
    with pytest.raises(CommitConflict):
        world.port.commit(doing, result.files, 0)
    assert world.rows() == coordinates([Rows(at(0, 10))])


def test_a_large_file_is_written_again_a_part_at_a_time(world, monkeypatch):
    """Others may have compacted a table into files of a gigabyte."""
    rows = [Rows(at(n * 100, n * 100 + 100), value=bytes([n]) * 10_000) for n in range(20)]
    folder = world.folder / f"topic_id={ID}"
    folder.mkdir()
    table = pa.concat_tables([r.table for r in rows])
    write_deltalake(world.folder, table, mode="append")
    monkeypatch.setattr(rewriting, "_BATCH_BYTES", 100_000)
    monkeypatch.setattr(rewriting, "_GROUP_BYTES", 1_000_000)
    seen = []
    real = pq.ParquetFile.iter_batches

    def watched(self, *given, **named):
        for batch in real(self, *given, **named):
            seen.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    world.port.commit(change(at(150, 250)), (), 1)
    assert 0 < max(seen) < 15_000_000
    assert len(world.rows()) == 1_900
    left = DeltaTable(world.folder).to_pyarrow_table(columns=["offset", "value"]).to_pylist()
    assert all(row["value"] == bytes([row["offset"] // 100]) * 10_000 for row in left)
    (uri,) = DeltaTable(world.folder).file_uris()
    assert f"/landed-p-1/topic_id={ID}/kept-" in uri


def test_times_beyond_2262_survive_a_rewriting(world):
    """Spark's own writer stores times as INT96, which Arrow reads in nanoseconds by default."""
    late = datetime(9999, 12, 31, tzinfo=UTC)
    times = pa.array([late] * 10, pa.timestamp("us", "UTC"))
    table = Rows(at(0, 10)).table
    table = table.set_column(5, "timestamp", times).drop(["topic_id"])
    path = f"landed-other-1/topic_id={ID}/part-0.parquet"
    target = Path(world.folder, path)
    target.parent.mkdir(parents=True)
    pq.write_table(table, target, use_deprecated_int96_timestamps=True)
    other = change(at(0, 10), commit_id="other")
    world.port.commit(other, [path], 0)
    world.port.commit(change(at(0, 5), token=2), (), 1)
    (uri,) = DeltaTable(world.folder).file_uris()
    kept = pq.ParquetFile(uri)
    assert kept.read().column("timestamp").to_pylist() == [late] * 5
    assert kept.schema.column(4).physical_type == "INT64"
    assert '"isAdjustedToUTC":true' in kept.schema.column(4).logical_type.to_json()


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"x" * 100])
def test_half_a_file_is_no_data(world, damage):
    """A store that lost the end of an upload: refused, and not tried for ever."""
    doing = change(at(0, 10))
    result = world.write(doing, Rows(at(0, 10)))
    target = world.folder / result.files[0]
    target.write_bytes(damage(target.read_bytes()))
    with pytest.raises(VerificationFailed, match="no whole Parquet file"):
        world.port.written(doing, result)


def test_rows_without_coordinates_are_refused(world):
    """A reader that lost its way writes NULL."""
    doing = change(at(0, 10))
    table = Rows(at(0, 10)).table
    path = f"{doing.folder}/topic_id={ID}/part-0.parquet"
    table = table.set_column(4, SCHEMA.field("offset"), pa.nulls(10, pa.int64()))
    Path(world.folder, path).parent.mkdir(parents=True)
    pq.write_table(table.drop(["topic_id"]), world.folder / path)
    result = replace(world.write(doing), rows=10)
    world.name(doing, [path])
    with pytest.raises(VerificationFailed, match="10 coordinates in them are missing"):
        world.port.written(doing, result)


def note(nullable=True, **metadata):
    return Field("note", PrimitiveType("string"), nullable=nullable, metadata=metadata or None)


@pytest.mark.parametrize(
    ("others", "named"),
    [
        (lambda t: t.alter.set_table_properties({"delta.appendOnly": "true"}), "delta.appendOnly"),
        (lambda t: t.alter.add_constraint({"positive": "offset >= 0"}), "constraint positive"),
        (lambda t: t.alter.add_columns([note(**{"delta.invariants": "{}"})]), "column note"),
        (
            lambda t: t.alter.set_table_properties({"delta.enableChangeDataFeed": "true"}),
            "delta.enableChangeDataFeed",
        ),
    ],
)
def test_a_table_that_asks_for_delta_s_writer_is_refused_by_name(world, others, named):
    """ADR 20: what adds and removes files itself would break what such a table promises."""
    others(DeltaTable(world.folder))
    doing = change(at(0, 10))
    result = world.write(doing, Rows(at(0, 10)))
    with pytest.raises(Halted, match=f"asks for Delta's own writer: .*({named})"):
        world.port.commit(doing, result.files, world.port.observe().version)
    assert world.rows() == []


def test_a_nullable_column_of_others_is_fine(world):
    """New rows have no value there; rows that are written again keep theirs."""
    world.append(Rows(at(0, 10)))
    DeltaTable(world.folder).alter.add_columns([note()])
    DeltaTable(world.folder).update(updates={"note": "'kept'"})
    assert world.port.observe().partition_by == ("topic_id",)
    doing = change(at(5, 15))
    version = world.port.observe().version
    world.port.commit(doing, world.write(doing, Rows(at(5, 15))).files, version)
    found = DeltaTable(world.folder).to_pyarrow_table(columns=["offset", "note"]).to_pylist()
    assert {row["offset"]: row["note"] for row in found} == {
        n: "kept" if n < 5 else None for n in range(15)
    }


@pytest.mark.parametrize("partition_by", [["topic_id"], []])
def test_what_delta_rs_has_updated_can_be_counted_and_written_again(tmp_path, partition_by):
    """It writes `string_view` into a file's metadata, for which Arrow has no comparison."""
    world = DeltaWorld(tmp_path / "u", partition_by)
    world.append(Rows(at(0, 10), key=b"k", header=b"h"), Rows(at(0, 10, partition=1)))
    DeltaTable(world.folder).update(updates={"plan_id": "'q'"})
    landed = world.port.landed([at(0, 10), at(0, 5, partition=1)], 2)
    assert sorted(held.rows for held in landed.values()) == [5, 10]
    assert sum(stored.rows for stored in world.port.stored()) == 20
    world.port.commit(change(at(5, 10)), (), 2)
    left = [Rows(at(0, 5), plan_id="q"), Rows(at(0, 10, partition=1), plan_id="q")]
    assert world.rows() == coordinates(left)
    (first, *_) = (
        DeltaTable(world.folder).to_pyarrow_table(filters=[("partition", "=", 0)]).to_pylist()
    )
    assert (first["key"], first["headers"]) == (b"k", [{"key": "h", "value": b"h"}])


def test_a_checkpoint_keeps_what_was_removed_removed(world):
    """The log is checkpointed and read again from there."""
    world.append(Rows(at(0, 40)))
    world.port.commit(change(at(0, 20)), (), 1)
    DeltaTable(world.folder).create_checkpoint()
    for version in (0, 1):
        Path(world.folder, "_delta_log", f"{version:020}.json").unlink()
    assert world.rows() == coordinates([Rows(at(20, 40))])
    assert world.port.newest_token("tideline:l") == 1
    doing = change(at(20, 40), token=2, commit_id="q")
    world.port.commit(doing, (), 2)
    assert world.rows() == []
    assert DeltaTable(world.folder).vacuum(0, enforce_retention_duration=False) != []


def test_a_version_that_the_log_has_no_more_is_no_empty_table(world):
    """A short log was cleaned up after the version had been looked at; its rows are not gone."""
    for start in (0, 10, 20):
        world.append(Rows(at(start, start + 10)))
    DeltaTable(world.folder).create_checkpoint()
    log = world.folder / "_delta_log"
    for commit in sorted(log.glob("*.json"))[:-1]:
        commit.unlink()
    newest = world.port.observe().version
    assert world.port.landed([at(0, 30)], newest)
    for asked in (
        lambda: world.port.landed([at(0, 30)], newest - 1),
        lambda: list(world.port.stored(newest - 1)),
        lambda: world.port.files_at([at(0, 30)], newest - 1),
    ):
        with pytest.raises(ServiceAway, match=f"no version {newest - 1} any more"):
            asked()


def test_a_table_s_creation_that_was_cut_off_is_begun_again(tmp_path):
    """What it left is no table, and is not taken for one without our marks."""
    log = tmp_path / "t" / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    (log / ".00000000000000000000.json.a.tmp").touch()
    (log / "_commit_a.json.tmp").touch()
    table = TargetTable(str(tmp_path / "t"))
    assert not table.observe().exists
    table.create("s", "l", [])
    assert (table.observe().stream, table.observe().version) == ("s", 0)


def test_a_folder_with_other_things_is_no_table_s_place(tmp_path):
    """Refused before anything is written into it."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"holds no Delta table: it contains notes\.txt"):
        TargetTable(str(tmp_path)).create("s", "l", [])
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_of_two_creations_at_once_one_stands(tmp_path):
    """A zombie and its successor, or two streams that mean the same folder."""
    for number in range(30):
        uri = str(tmp_path / str(number))
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(TargetTable(uri).create, name, name, []) for name in "ab"]
            assert [one.result() for one in both] == [None, None]
        seen = TargetTable(uri).observe()
        assert DeltaTable(uri).version() == 0
        assert seen.stream == seen.ledger_id


def without_statistics(world):
    """Another writer compacts the table: its log entries say nothing about the new files."""
    table = DeltaTable(world.folder)
    data = table.to_pyarrow_table()
    path = f"topic_id={ID}/optimized.parquet"
    (world.folder / path).parent.mkdir(exist_ok=True)
    pq.write_table(data.drop(["topic_id"]), world.folder / path)
    size = (world.folder / path).stat().st_size
    removed = [
        RemoveAction(f.path, False, 0, f.size, dict(f.partition)) for f in active_files(table)
    ]
    added = AddAction(path, size, {"topic_id": ID}, 0, False, None)
    table.create_write_transaction(
        [added, *removed], "append", table.schema(), partition_by=["topic_id"]
    )


@pytest.mark.parametrize("again", [(), (Rows(at(0, 5)),)], ids=["removal", "replay"])
def test_a_file_without_a_number_of_rows_is_written_again(world, again):
    """R2: a part of it goes, and the rest stays; statistics are nobody's duty in Delta."""
    doing = change(at(0, 10))
    world.port.commit(doing, world.write(doing, Rows(at(0, 10))).files, 0)
    without_statistics(world)
    doing = change(at(0, 5), token=2)
    files = world.write(doing, *again).files if again else ()
    world.port.commit(doing, files, 2)
    assert world.rows() == coordinates([*again, Rows(at(5, 10))])


def test_an_offset_that_others_have_emptied_is_not_proven(world):
    """As many rows as the bounds span, and yet there is none at one offset."""
    doing = change(at(0, 10))
    world.port.commit(doing, world.write(doing, Rows(at(0, 10))).files, 0)
    DeltaTable(world.folder).update(updates={'"offset"': "NULL"}, predicate='"offset" = 5')
    with pytest.raises(VerificationFailed, match="they lack offset"):
        world.port.landed([at(0, 10)], 2)


@pytest.mark.parametrize(("folder", "reads"), [("landed-p-1", 0), ("by-others", 1)])
def test_a_topic_id_in_the_statistics_is_proof_in_our_own_files(
    tmp_path, monkeypatch, folder, reads
):
    """Others may have cut a text's bounds. The rows are at the coordinates in either case."""
    table, target = TargetTable(str(tmp_path)), tmp_path / folder / "part-0.parquet"
    table.create("orders", "ledger", ())
    target.parent.mkdir()
    pq.write_table(Rows(at(0, 10)).table, target)
    described = read_footer(LocalFileSystem(), str(target))
    action = replace(described, path=f"{folder}/part-0.parquet").action()
    now = DeltaTable(tmp_path)
    now.create_write_transaction([action], "append", now.schema())
    seen = []
    real = delta_table.read_coordinates
    monkeypatch.setattr(
        delta_table, "read_coordinates", lambda *given: seen.append(given) or real(*given)
    )
    (found,) = table.landed([at(0, 10)], 1).values()
    assert (found.rows, len(seen)) == (10, reads)


@pytest.mark.parametrize(
    ("metrics", "rows"),
    [({}, 20), ({"numOutputRows": "15"}, 15), ({"numOutputRows": "15", "numCopiedRows": "5"}, 10)],
)
def test_a_commit_that_does_not_tell_its_rows_stands_for_all_that_were_planned(
    world, metrics, rows
):
    """As earlier versions committed through Spark, which may be told to keep its metrics back."""
    told = json.loads(change(at(0, 10), at(5, 15, partition=1)).metadata(rows=0, bytes=0))
    told = json.dumps({k: v for k, v in told.items() if k not in ("rows", "bytes")})
    info = {"operation": "WRITE", "userMetadata": told, "operationMetrics": metrics}
    log = world.folder / "_delta_log" / f"{1:020}.json"
    log.write_text(json.dumps({"commitInfo": info}))
    assert world.port.find_commit("p", 0).rows == rows


def test_a_file_that_goes_before_the_commit_takes_no_good_one_out(world):
    """Somebody's vacuum, without retention: the footer was read before it."""
    first, second = change(at(0, 20)), change(at(0, 20), token=2)
    world.port.commit(first, world.write(first, Rows(at(0, 20))).files, 0)
    again = world.write(second, Rows(at(0, 10)), Rows(at(10, 20)))
    files = world.port.written(second, again).files
    DeltaTable(world.folder).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    with pytest.raises(VerificationFailed, match="2 of 2 data files are no longer there"):
        world.port.commit(second, files, world.port.observe().version)
    assert world.rows() == coordinates([Rows(at(0, 20))])


@pytest.mark.parametrize("parts", [1, 2])
def test_statistics_of_a_file_that_is_gone_prove_nothing(world, parts):
    """Deleted after the commit, before verifying; another file of the folder may still stand."""
    doing = change(at(0, 20))
    rows = [Rows(at(n * 10, n * 10 + 10)) for n in range(parts)]
    files = world.write(doing, *rows).files
    world.port.commit(doing, files, 0)
    world.lose(files[-1])
    with pytest.raises(VerificationFailed, match="it is gone"):
        world.port.landed([at(0, 20)], 1)
