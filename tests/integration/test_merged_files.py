"""What merged files hold: every column of every file, whoever wrote it and in which types."""

import json
import os
import random
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.worlds.build import ID
from tests.worlds.damage import Breaking
from tideline.errors import BadInput
from tideline.model.decoding import INVALID, OF_ENVELOPE, UNAVAILABLE
from tideline.model.offsets import CoordinateRange
from tideline.rules.upkeep import plan_merges
from tideline.table.columns import columns_of
from tideline.table.maintained_table import MaintainedTable
from tideline.table.rewriting import rewrite
from tideline.table.schema import COMPACTION_ID, TYPED_COLUMNS, TableChange, delta_fields
from tideline.table.statistics import Coordinates, DataFile

_CHOSEN = ("headers", UNAVAILABLE, INVALID, *OF_ENVELOPE)
COLUMNS = {name: kind for name, kind in TYPED_COLUMNS.items() if name not in _CHOSEN}
"""As they come, where nobody chooses."""

LATE = datetime(9999, 12, 31, tzinfo=UTC)
DAY = date(2026, 1, 1)
_POINT = pa.struct([("x", pa.int64()), ("tags", pa.map_(pa.string(), pa.int32()))])


def rows(start, end, day=DAY, topic="orders", **fields):
    """Typed rows of one log."""
    count = end - start
    columns = {
        "topic_id": pa.array([ID] * count),
        "generation": pa.array([0] * count, pa.int32()),
        "topic": pa.array([topic] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(start, end), pa.int64()),
        "timestamp": pa.array([LATE] * count, pa.timestamp("us", "UTC")),
        "is_tombstone": pa.array([False] * count),
        "schema_id": pa.array([1] * count, pa.int32()),
        "event_date": pa.array([day] * count, pa.date32()),
        **{name: pa.array(values) for name, values in fields.items()},
        "decode_plan_id": pa.array(["d"] * count),
    }
    return pa.table(columns)


class Typed:
    """A typed table with partitions by day and topic."""

    def __init__(self, folder):
        self.uri = str(folder / "typed")
        self.table = MaintainedTable(self.uri, columns=COLUMNS)
        fields = delta_fields(COLUMNS)
        self.table.create("orders", "l", ["event_date", "topic"], fields)
        self.token = 0

    def append(self, *tables, **named):
        for table in tables:
            write_deltalake(self.uri, table, mode="append", **named)

    def merge(self):
        """Merge all there is; the number of files after it."""
        self.token += 1
        groups = plan_merges(self.table.files(), below_bytes=10**6, target_bytes=10**6)
        change = TableChange("l", COMPACTION_ID, "r", self.token, ())
        merges = self.table.merge(change, groups)
        change = TableChange("l", COMPACTION_ID, "r", self.token, (), merges)
        self.table.commit(change, (), self.table.size().version)
        return len(self.table.files())

    def content(self):
        found = DeltaTable(self.uri).to_pyarrow_table()
        return sorted(found.to_pylist(), key=lambda row: (row["offset"], repr(row)))


@pytest.fixture
def typed(tmp_path):
    return Typed(tmp_path)


def test_days_topics_and_rows_without_a_day(typed):
    """Folders with any name, and none for null."""
    names = ("a b", "a%20b", "ä:ö", "x=y", "50%", "q?#&")
    for n, topic in enumerate(names):
        for day in (DAY, None):
            typed.append(*(rows(n * 10 + i, n * 10 + i + 1, day, topic) for i in range(2)))
    before = typed.content()
    assert len(typed.table.files()) == 24
    assert typed.merge() == 12
    assert typed.content() == before
    assert typed.table.vacuum(1, delete=True).files == 0
    typed.append(*(rows(100, 101, day, topic) for topic in names for day in (DAY, None)))
    again = typed.content()
    assert typed.merge() == 12
    assert typed.content() == again


def test_rows_without_a_day_keep_none_when_others_are_taken_from_beside_them(typed):
    """Delta's log names every partition column of a file, also where there is no value."""
    typed.append(rows(0, 10, None))
    gone = CoordinateRange("orders", ID, 0, 0, 3, 5)
    typed.table.commit(TableChange("l", "m", "r", 9, (gone,)), (), typed.table.size().version)
    assert [r["event_date"] for r in typed.content()] == [None] * 8
    log = sorted(Path(typed.uri, "_delta_log").glob("*.json"))[-1].read_text()
    (add,) = [a["add"] for a in map(json.loads, log.splitlines()) if "add" in a]
    assert add["partitionValues"] == {"event_date": None, "topic": "orders"}


def test_what_spark_has_written_for_no_day_is_null(typed):
    """Its folder has a name all the same."""
    change = TableChange("l", "p", "r", 9, (CoordinateRange("orders", ID, 0, 0, 0, 10),))
    path = f"{change.folder}/event_date=__HIVE_DEFAULT_PARTITION__/topic=orders/part-0.parquet"
    target = Path(typed.uri, path)
    target.parent.mkdir(parents=True)
    pq.write_table(rows(0, 10).drop_columns(["event_date", "topic"]), target)
    typed.table.commit(change, (path,), typed.table.size().version)
    assert [r["event_date"] for r in typed.content()] == [None] * 10


def test_fields_that_came_later_inside_of_others(typed):
    """Null in the rows of before, as Delta's readers have it."""
    old = pa.array([{"x": 1, "tags": [("a", 1)]}] * 2, _POINT)
    typed.append(rows(0, 2, at=old), schema_mode="merge")
    wider = pa.struct([*_POINT, ("y", pa.list_(pa.struct([("z", pa.float64())])))])
    new = pa.array([{"x": 2, "tags": None, "y": [{"z": 0.5}, None]}] * 2, wider)
    typed.append(rows(2, 4, at=new), schema_mode="merge")
    before = typed.content()
    assert typed.merge() == 1
    assert typed.content() == before
    assert [r["at"].get("y") for r in before] == [None, None, *[[{"z": 0.5}, None]] * 2]
    assert "at" in {c["name"] for c in columns_of(DeltaTable(typed.uri))}


def test_times_as_spark_writes_them(typed):
    """INT96 does not say UTC, and nanoseconds end in 2262."""
    typed.append(rows(0, 2))
    (path,) = DeltaTable(typed.uri).file_uris()
    written = pq.read_table(path, partitioning=None)
    # Arrow itself writes INT96 only for what nanoseconds hold.
    early = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))
    at = written.column_names.index("timestamp")
    data = written.set_column(at, "timestamp", early)
    pq.write_table(data, path, use_deprecated_int96_timestamps=True, store_schema=False)
    assert pq.read_schema(path).field("timestamp").type.tz is None
    typed.append(rows(2, 4))
    assert typed.merge() == 1
    assert [r["timestamp"] for r in typed.content()] == [early[0].as_py()] * 2 + [LATE] * 2
    (path,) = DeltaTable(typed.uri).file_uris()
    stored = pq.read_schema(path)
    assert stored.field("timestamp").type == pa.timestamp("us", "UTC")


def test_rows_that_a_store_does_not_give_are_not_left_out(tmp_path):
    """Of a file that is written again without some rows; Arrow takes them for all that there is."""
    notes = [random.Random(n).randbytes(600).hex() for n in range(900)]
    pq.write_table(rows(0, 900, note=notes), tmp_path / "old.parquet")
    at = CoordinateRange("orders", ID, 0, 0, 0, 10)
    file, wanted = DataFile("old.parquet", 900, {}, 0, 899), Coordinates([at])
    path = rewrite(Breaking(tmp_path, 0), file, wanted, "kept")
    assert pq.read_metadata(tmp_path / path).num_rows == 890
    with pytest.raises(OSError, match="0 of 900 rows"):
        rewrite(Breaking(tmp_path, 1), file, wanted, "kept")


def test_statistics_are_those_of_the_merged_rows(typed):
    """Checks skip files by them."""
    typed.append(rows(0, 10), rows(30, 40), rows(10, 20))
    assert typed.merge() == 1
    (file,) = typed.table.files()
    one = {"generation": 0, "partition": 0, "topic_id": ID[:32]}
    assert (file.rows, file.low, dict(file.holds)) == (30, 0, one)
    found = DeltaTable(typed.uri).to_pyarrow_table(filters=[("offset", ">=", 30)])
    assert sorted(found["offset"].to_pylist()) == list(range(30, 40))


def test_types_that_delta_rs_prefers_are_merged_with_spark_s(typed):
    """What delta-rs has updated comes as views of strings."""
    typed.append(rows(0, 5, note=["a"] * 5), schema_mode="merge")
    DeltaTable(typed.uri).update({"note": "'b'"}, predicate="offset = 3")
    typed.append(rows(5, 10, note=["c"] * 5))
    before = typed.content()
    assert typed.merge() == 1
    assert typed.content() == before


def test_a_table_that_asks_for_delta_s_own_writer_is_refused(typed):
    """Before anything is read."""
    from tideline.errors import Halted

    typed.append(rows(0, 1), rows(1, 2))
    DeltaTable(typed.uri).alter.add_constraint(
        {"small": "offset < 100"}, commit_properties=CommitProperties()
    )
    with pytest.raises(Halted, match="small"):
        typed.merge()
    assert not list(Path(typed.uri).glob("landed-*"))


def test_a_table_inside_of_another_one_keeps_its_files(tmp_path):
    """Whoever wrote it, and whichever was first: this one's folder is not all this one's."""
    typed = Typed(tmp_path)
    typed.append(rows(0, 3))
    inside = f"{typed.uri}/lake/others"
    write_deltalake(inside, pa.table({"x": [1, 2]}))
    for file in Path(typed.uri).rglob("*"):
        os.utime(file, (0, 0))
    for delete in (False, True):
        with pytest.raises(BadInput, match=r"another Delta table lies inside of .* in lake/others"):
            typed.table.vacuum(1, delete=delete)
    assert DeltaTable(inside).to_pyarrow_table().num_rows == 2
