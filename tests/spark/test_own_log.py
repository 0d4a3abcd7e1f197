"""A table whose log our client writes, read by Delta in Spark and by delta-rs."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from tideline.table.log import NewestTable
from tideline.table.opened import LoggedTable

ROWS = 3


@pytest.mark.parametrize("local", [False, True], ids=["protocol 1 and 2", "features"])
def test_others_read_what_it_writes(spark, tmp_path, local):
    """Also where nothing is left of the log but the last checkpoint and what came after it."""
    uri, times = str(tmp_path / "t"), pa.timestamp("us", None if local else "UTC")
    schema = pa.schema([("day", pa.string()), ("k", pa.int64()), ("at", times)])
    given = {"delta.checkpointInterval": "5"}
    DeltaTable.create(uri, schema, partition_by=["day"], configuration=given)
    kept, paths = NewestTable(uri, {}), []
    for n in range(12):
        table = kept.newest()
        assert isinstance(table, LoggedTable)
        path = f"day=a%3A{n % 2}/f{n}.parquet"
        Path(uri, path).parent.mkdir(exist_ok=True)
        at = datetime(2026, 1, 1, n)
        data = pa.table({"k": [n] * ROWS, "at": pa.array([at] * ROWS, times)})
        pq.write_table(data, Path(uri, path))
        size, day = Path(uri, path).stat().st_size, {"day": f"a:{n % 2}"}
        actions = [AddAction(path, size, day, 5, True, f'{{"numRecords": {ROWS}}}')]
        if n % 4 == 3:
            actions.append(RemoveAction(paths.pop(), True, 9, 1, {"day": f"a:{(n - 1) % 2}"}))
        paths.append(path)
        kept.commit(table, actions, f"said {n}", Transaction("app", n + 1))
    log = Path(uri, "_delta_log")
    assert sorted(p.name[18:20] for p in log.glob("*.checkpoint.parquet")) == ["05", "10"]
    for path in log.glob("*.json"):
        if int(path.name[:20]) < 10:
            path.unlink()
    expected = sorted({int(p.partition("/f")[2].partition(".")[0]) for p in paths})
    found = spark.session.read.format("delta").load(uri)
    assert [tuple(r) for r in found.groupBy("k").count().orderBy("k").collect()] == [
        (k, ROWS) for k in expected
    ]
    assert {r["day"] for r in found.select("day").distinct().collect()} == {"a:0", "a:1"}
    history = spark.session.sql(f"DESCRIBE HISTORY delta.`{uri}`").collect()
    assert [(r["version"], r["userMetadata"]) for r in history[:2]] == [
        (12, "said 11"),
        (11, "said 10"),
    ]
    theirs = DeltaTable(uri)
    assert sorted({*theirs.to_pyarrow_table()["k"].to_pylist()}) == expected
    assert theirs.transaction_version("app") == 12
