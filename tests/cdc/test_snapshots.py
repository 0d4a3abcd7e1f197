"""What Debezium says of rows that a snapshot reads, beside changes that happen meanwhile."""

import json

from deltalake import DeltaTable

from devstack.process import wait_until
from tideline.folding.sweeping import find_stale_rows
from tideline.model.request import RunRequest
from tideline.stream.stream import tables_of
from tideline.wiring import open_run


def test_a_row_of_a_snapshot_has_the_time_of_the_snapshots_beginning(
    source, capture, harness, spark
):
    """So of PostgreSQL the source's time orders changes that come while the snapshot is read.

    Databases whose CURRENT_TIMESTAMP is not the transaction's have the time at which the table's
    turn came.
    """
    database = source.create_database("shop")
    source.execute("CREATE TABLE first (id bigint PRIMARY KEY)", "shop")
    source.execute("CREATE TABLE orders (id bigint PRIMARY KEY, note text)", "shop")
    source.execute("INSERT INTO orders VALUES (1, 'old')", "shop")
    slow = {
        "snapshot.select.statement.overrides": "public.first",
        "snapshot.select.statement.overrides.public.first": "SELECT id FROM first, pg_sleep(9)",
        "table.include.list": "public.first,public.orders",
    }
    captured = capture("json", database, **slow)
    reading = "state = 'active' AND query LIKE 'SELECT id FROM first%'"
    is_reading = f"SELECT 1 FROM pg_stat_activity WHERE {reading}"
    wait_until(lambda: source.execute(is_reading), "the snapshot has not begun", 60)
    source.execute("UPDATE orders SET note = 'new'", "shop")
    wait_until(lambda: captured.end() == 2, "the change is not there", 90)
    source.execute("ALTER TABLE orders ADD COLUMN more int DEFAULT 5", "shop")
    source.execute("INSERT INTO orders (id) VALUES (2)", "shop")
    wait_until(lambda: captured.end() == 3, "the row is not there", 90)
    stream = captured.stream(current={"table": {"buckets": 1}})
    harness.run(stream, "one", spark)
    typed = DeltaTable(tables_of(stream)["decoded"]).to_pyarrow_table().sort_by("offset")
    read, changed, _ = typed.to_pylist()
    assert [(r["op"], r["note"]) for r in (read, changed)] == [("r", "old"), ("u", "new")]
    assert read["source_timestamp"] < changed["source_timestamp"]
    rows = DeltaTable(tables_of(stream)["current"]).to_pyarrow_table().to_pylist()
    found = {row["id"]: (row["note"], row["more"]) for row in rows}
    assert found == {1: ("new", None), 2: (None, 5)}  # a default writes no change


def test_a_snapshot_with_conditions_bears_the_marks_of_a_whole_one(source, capture, harness, spark):
    """Rows that it was not asked for are listed as stale: whoever sweeps has to know."""
    database = source.create_database("shop")
    signals = "(id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))"
    source.execute(f"CREATE TABLE signals {signals}", "shop")
    source.execute("CREATE TABLE orders (id bigint PRIMARY KEY, note text)", "shop")
    source.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 4) AS n", "shop")
    captured = capture("json", database, **{"signal.data.collection": "public.signals"})
    wait_until(lambda: captured.end() == 4, "the snapshot is not there", 90)
    condition = {
        "data-collection": "public.orders",
        "filter": "SELECT * FROM public.orders WHERE id > 2",
    }
    asked = {
        "data-collections": ["public.orders"],
        "type": "blocking",
        "additional-conditions": [condition],
    }
    told = json.dumps(asked).replace(":", "\\:")
    source.execute(f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{told}')", "shop")
    wait_until(lambda: captured.end() == 6, "the second snapshot is not there", 90)
    stream = captured.stream(current={"table": {"buckets": 1}})
    harness.run(stream, "one", spark)
    typed = DeltaTable(tables_of(stream)["decoded"]).to_pyarrow_table().sort_by("offset")
    assert [row["id"] for row in typed.to_pylist()][4:] == [3, 4]
    with open_run(stream, "sweep", RunRequest(by="ann"), spark) as run:
        assert {int(key["key_id"]) for key in find_stale_rows(run).keys} == {1, 2}
