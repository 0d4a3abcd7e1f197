"""What erasing asks of tables: rows by key, rows at coordinates, a log that begins anew."""

import json
import os
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.worlds.lake import Lake
from tideline.delta.delta_io import read_parquet
from tideline.errors import BadInput
from tideline.landing.attempts import begin_attempt
from tideline.landing.table_commit import remove
from tideline.model.offsets import CoordinateRange
from tideline.operations import erase_finding
from tideline.operations.questions import require_clean
from tideline.table.maintained_table import MaintainedTable
from tideline.table.scans import rows_at
from tideline.table.schema import fence_id

COORDINATES = ("topic_id", "generation", "partition", "offset")


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path).build()


def log_of(lake):
    return sorted(p.name for p in Path(lake.uri, "_delta_log").iterdir() if p.name[0] != ".")


def test_a_cut_log_says_what_it_said_and_nothing_of_before(lake):
    """Our client, delta-rs and the next commit go on from there; the ledger misses nothing."""
    table = MaintainedTable(lake.uri)
    rows = DeltaTable(lake.uri).to_pyarrow_table().num_rows
    before = log_of(lake)
    assert table.cut_log() == len([n for n in before if n < f"{2:020d}"]) == 2
    version = f"{2:020d}"
    assert log_of(lake) == [f"{version}.checkpoint.parquet", f"{version}.json", "_last_checkpoint"]
    assert DeltaTable(lake.uri).to_pyarrow_table().num_rows == rows == 400
    assert table.observe().version == MaintainedTable(lake.uri).observe().version == 2
    assert require_clean(lake.run).rows == 400
    with lake.ledger.lease("writer"):
        run = lake.open("next")
        attempt = begin_attempt(run, lake.ledger.read().control.ledger_id)
        remove(run, attempt.change(fence_id("next")), after_version=2)
    assert table.cut_log() == 2  # the commit and the checkpoint of before
    assert DeltaTable(lake.uri).version() == 3
    assert require_clean(lake.run).rows == 400


def test_a_log_that_our_client_leaves_to_delta_rs_is_cut_as_well(lake):
    write_deltalake(lake.uri, DeltaTable(lake.uri).to_pyarrow_table().slice(0, 1), mode="append")
    path = Path(lake.uri, "_delta_log", f"{3:020d}.json")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines.append({"domainMetadata": {"domain": "other", "configuration": "", "removed": False}})
    path.write_text("\n".join(map(json.dumps, lines)))
    table = MaintainedTable(lake.uri)
    assert table.observe().version == 3
    assert table.cut_log() == 3
    assert DeltaTable(lake.uri).to_pyarrow_table().num_rows == 401


def test_row_groups_that_cannot_hold_a_key_are_not_read(tmp_path):
    """By their statistics: of a hundred groups, two."""
    rows = pa.table({"id": list(range(1000)), "note": [f"n{n}" for n in range(1000)]})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=10)
    read = read_parquet(str(tmp_path), "f.parquet", ["id"], {}, holding={"id": [5, 777]})
    assert read.column("id").to_pylist() == [*range(10), *range(770, 780)]
    assert len(read_parquet(str(tmp_path), "f.parquet", ["id"], {}, holding={"id": [-1]})) == 0
    assert len(read_parquet(str(tmp_path), "f.parquet", ["id"], {}, holding={"id": ["x"]})) == 1000


def test_rows_of_keys_and_rows_at_coordinates(lake):
    table = MaintainedTable(lake.uri)
    topic_id = table.rows_with([{"offset": "5", "partition": "1"}], COORDINATES)[0]["topic_id"]
    keys = [{"offset": "5", "partition": "1"}, {"offset": "150", "partition": "0"}]
    found = {(r["partition"], r["offset"]) for r in table.rows_with(keys, COORDINATES)}
    assert found == {(1, 5), (0, 150)}
    assert table.rows_with([], COORDINATES) == []
    assert table.rows_with([{"nobody": "1"}], COORDINATES) == []
    with pytest.raises(BadInput, match="offset: got 'x'"):
        table.rows_with([{"offset": "x"}], COORDINATES)
    wanted = [CoordinateRange("orders", topic_id, 0, 1, 98, 103)]
    at = {(r["partition"], r["offset"], r["plan_id"]) for r in rows_at(table, wanted, ("plan_id",))}
    assert at == {(1, o, "plan-first" if o < 100 else "plan-second") for o in range(98, 103)}
    assert len([*rows_at(table, None, ())]) == 400
    assert [*rows_at(MaintainedTable(lake.uri + "-none"), None, ())] == []


def test_each_key_is_looked_for_in_each_table_that_it_fits(tmp_path):
    """A table of before may lack the column, or have it in another type; no other key is lost."""
    log = {"topic_id": [str(UUID(int=7))] * 2, "generation": [0] * 2, "partition": [0] * 2}
    for name, columns in {
        "today": {"offset": [2, 3], "id": ["abc", "8"]},
        "before": {"offset": [0, 1], "id": [7, 8]},
        "first": {"offset": [4, 5]},
    }.items():
        write_deltalake(str(tmp_path / name), pa.table(log | columns))
    tables = [MaintainedTable(str(tmp_path / name)) for name in ("today", "before", "first")]
    keys = [{"id": "7"}, {"id": "abc"}, {"id": "nobody"}]
    found, had, unasked = erase_finding._by_columns(tables, 1, keys, keys)
    assert sorted(offset for _, offset in found) == [0, 2]
    assert had == {0, 1}
    assert [text.split(":")[0] for text in unasked] == [
        f"2 of the keys fit no column of {tables[1].uri}",
        f"3 of the keys fit no column of {tables[2].uri}",
    ]


@pytest.mark.parametrize(
    ("today", "before", "keys", "offsets", "told"),
    [
        (["1"], [1.0], ["1"], [0], "fit no column"),
        (["007"], [7], ["007"], [0], "fit no column"),
        ([7], ["7"], ["7"], [0, 1], "in another spelling"),
        ([7], ["007"], ["7"], [0], "in another spelling"),
        (["7"], [7], ["7"], [0, 1], None),
    ],
)
def test_a_column_that_had_another_type_finds_nobody_else(
    tmp_path, today, before, keys, offsets, told
):
    """Of a table of before only rows that are spelled alike are a key's; what is left is told."""
    tables = []
    for offset, (name, values) in enumerate({"today": today, "before": before}.items()):
        log = {"topic_id": [str(UUID(int=7))], "generation": [0], "partition": [0]}
        write_deltalake(str(tmp_path / name), pa.table({**log, "offset": [offset], "id": values}))
        tables.append(MaintainedTable(str(tmp_path / name)))
    wanted = [{"id": key} for key in keys]
    found, _, unasked = erase_finding._by_columns(tables, 1, wanted, wanted)
    assert sorted(offset for _, offset in found) == offsets
    assert [told in text for text in unasked] == ([True] if told else [])


def test_files_of_a_partition_whose_value_has_to_be_encoded_count(tmp_path):
    """A Delta log has their paths as URLs (`kind=a%2520b`)."""
    uri, topic_id = str(tmp_path / "typed"), str(UUID(int=7))
    kinds = ["a b", "50%", "Köln"]
    rows = {"topic_id": [topic_id] * 3, "generation": [0] * 3, "partition": [0] * 3}
    rows |= {"offset": [0, 1, 2], "kind": kinds}
    write_deltalake(uri, pa.table(rows), partition_by=["kind"])
    sizes = {f.partition: f.bytes for f in MaintainedTable(uri).files()}
    wanted = [CoordinateRange("orders", topic_id, 0, 0, 0, 2)]
    found = erase_finding.in_table("decoded", MaintainedTable(uri), wanted, 0)
    assert (found.rows, found.files) == (2, 2)
    assert found.bytes == sum(sizes[("kind", kind),] for kind in kinds[:2])


def test_a_key_has_one_spelling_and_one_that_is_rounded_is_refused(tmp_path):
    """Hashes are of the value, as its column has it."""
    uri = str(tmp_path / "typed")
    columns = {
        "id": pa.int64(),
        "total": pa.decimal128(10, 2),
        "at": pa.timestamp("us", "UTC"),
        "raw": pa.binary(),
        "share": pa.float64(),
        "note": pa.string(),
    }
    write_deltalake(uri, pa.table({n: pa.array([], k) for n, k in columns.items()}))
    table = MaintainedTable(uri)

    def spelled(**key):
        return dict(*table.spelled([key]))

    assert spelled(note="007", id="04711") == spelled(id="0x1267", note="007")
    assert [*spelled(note="007", id="04711").items()] == [("id", "4711"), ("note", "007")]
    assert spelled(total="1.5") == spelled(total="1.50") == {"total": "1.50"}
    assert spelled(at="2026-01-01T00:00:00Z") == spelled(at="2026-01-01T01:00:00+01:00")
    assert spelled(raw="CAFE") == {"raw": "cafe"}
    for name, text in (("total", "1.005"), ("id", "4711.0"), ("at", "2026-01-01")):
        with pytest.raises(BadInput):
            spelled(**{name: text})


KINDS = {
    "id": (pa.int64(), "04711", 4711),
    "total": (pa.decimal128(20, 6), "0.0000010", Decimal("0.000001")),
    "at": (
        pa.timestamp("us", "UTC"),
        "2026-01-01T01:00:00.5+01:00",
        datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC),
    ),
    "local": (
        pa.timestamp("us"),
        "1969-12-31T23:59:59.000001",
        datetime(1969, 12, 31, 23, 59, 59, 1),
    ),
    "day": (pa.date32(), "2026-01-31", date(2026, 1, 31)),
    "raw": (pa.binary(), "CAFE", b"\xca\xfe"),
    "note": (pa.string(), "a, 'b'\n\"ü\" ", "a, 'b'\n\"ü\" "),
}


@pytest.mark.parametrize("name", KINDS)
def test_which_keys_have_rows_whatever_their_column_is(tmp_path, name):
    """A row's value is spelled as the key is; else a key that was erased would be called absent."""
    kind, given, value = KINDS[name]
    rows = {"topic_id": ["t"], "topic": ["o"], "generation": [0], "partition": [0], "offset": [3]}
    write_deltalake(str(tmp_path), pa.table({**rows, name: pa.array([value], kind), "b": ["x"]}))
    table = MaintainedTable(str(tmp_path))
    asked = [{name: given, "b": "y"}, {name: given, "b": "x"}, {name: given}]
    keys = [key for one in asked for key in table.spelled([one])]
    found, had, _ = erase_finding._by_columns([table], 1, keys, keys)
    assert ({place[1] for place in found}, had) == ({3}, {1, 2})


def test_a_table_s_own_retention_counts_if_it_is_longer(lake):
    table = MaintainedTable(lake.uri)
    assert table.kept_hours(168) == 168
    DeltaTable(lake.uri).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 30 days"}
    )
    assert (table.kept_hours(168), table.kept_hours(1000)) == (720, 1000)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("INTERVAL 30 DAYS", 720),
        ("interval 2 weeks 3 days", 408),
        ("interval 7 days 12 hours", 180),
        ("interval 2592000001 milliseconds", 721),
    ],
)
def test_every_interval_of_deltas_counts(lake, text, hours):
    """Those that delta-rs does not read, too: neither keeps for less than the table says."""
    table, name = MaintainedTable(lake.uri), "delta.deletedFileRetentionDuration"
    table.set_properties({name: text})
    assert table.kept_hours(168) == hours
    stray = Path(lake.uri, "stray.parquet")
    for age, found in ((hours - 1, 0), (hours + 1, 1)):
        stray.write_text("x")
        os.utime(stray, (time.time() - age * 3600,) * 2)
        assert table.vacuum(1, delete=True).files == found


@pytest.mark.parametrize("text", ["interval '30' days", "interval 1 month", "soon", ""])
def test_an_interval_that_nobody_understands_is_refused_by_name(lake, text):
    """Before anything is deleted; with `at_once` nobody asks the table."""
    table, name = MaintainedTable(lake.uri), "delta.deletedFileRetentionDuration"
    table.set_properties({name: "interval 1 day"})
    table.set_properties({name: text})
    stray = Path(lake.uri, "stray.parquet")
    stray.write_text("x")
    os.utime(stray, (1, 1))
    told = [lambda: table.kept_hours(1), lambda: table.vacuum(1, delete=True)]
    told += [lambda: table.keep_for(1000)]
    for tell in told:
        with pytest.raises(BadInput) as refused:
            tell()
        assert all(part in str(refused.value) for part in (lake.uri, name, repr(text), "30 days"))
    assert stray.exists()
    assert table.vacuum(1, delete=True, at_once=True).files == 1


def test_a_table_is_asked_to_keep_files_as_long_as_the_stream_says(lake):
    """So no writer's checkpoint forgets them; what the table asks for is never made shorter."""
    table, name = MaintainedTable(lake.uri), "delta.deletedFileRetentionDuration"
    table.keep_for(168)
    assert name not in DeltaTable(lake.uri).metadata().configuration
    for hours, expected in ((720, 720), (200, 720), (721, 721)):
        table.keep_for(hours)
        assert DeltaTable(lake.uri).metadata().configuration[name] == f"interval {expected} hours"
    table.set_properties({name: "INTERVAL 2 Weeks 3 days"})  # of that delta-rs reads no word
    table.keep_for(168)
    assert DeltaTable(lake.uri).metadata().configuration[name] == "interval 408 hours"
