"""Columns of PostgreSQL through Debezium into a typed table: each value as the database has it."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from devstack.process import wait_until
from tests.worlds.changing_tables import TYPES

ROWS = (
    "(1, -3, 12345678901234.567891, 1.10, 0.1, '2024-02-29', '2024-01-31 23:59:59.999999',"
    " '2024-01-31 23:59:59.999', '2026-01-31 23:59:59.123456+02',"
    " '6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10', '{\"a\": 1}', 'é', '\\x00ff', true,"
    " ARRAY['a', NULL])",
    "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(3, 0, -0.000001, 12345678901234567890123456789.123, -0.0, '0001-01-01', '1900-01-01',"
    " '1969-12-31 23:59:59.999', '1969-12-31 23:59:59.999999Z', NULL, '[]', '', '', false, '{}')",
)
DAY = date(2024, 2, 29)
FOUND = [
    {
        "id": 1,
        "small": -3,
        "price": Decimal("12345678901234.567891"),
        "free": "1.1",  # Debezium drops the zero
        "ratio": 0.1,
        "day": DAY,
        "at": datetime(2024, 1, 31, 23, 59, 59, 999_999),
        "at_milli": datetime(2024, 1, 31, 23, 59, 59, 999_000),
        "zoned": datetime(2026, 1, 31, 21, 59, 59, 123_456, UTC),
        "ref": "6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10",
        "doc": '{"a": 1}',
        "note": "é",
        "raw": b"\x00\xff",
        "paid": True,
        "tags": ["a", None],
    },
    {"id": 2} | {name: None for name in TYPES if name != "id"},
    {
        "id": 3,
        "small": 0,
        "price": Decimal("-0.000001"),
        "free": "12345678901234567890123456789.123",
        "ratio": 0.0,
        "day": date(1, 1, 1),
        "at": datetime(1900, 1, 1),
        "at_milli": datetime(1969, 12, 31, 23, 59, 59, 999_000),
        "zoned": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        "ref": None,
        "doc": "[]",
        "note": "",
        "raw": b"",
        "paid": False,
        "tags": [],
    },
]
ESSAY = "x" * 10_000
CHANGES = (
    f"UPDATE orders SET essay = '{ESSAY}', small = 7 WHERE id = 2",
    "UPDATE orders SET paid = NULL WHERE id = 2",
    "DELETE FROM orders WHERE id = 2",
    "TRUNCATE orders",
)
KEY = FOUND[1]
"""What is known of the row when it goes."""


@pytest.mark.parametrize("format", ["json", "avro"])
def test_every_column_is_as_the_database_has_it(source, capture, harness, spark, format):
    """A snapshot, then changes, as Connect's JSON or as Avro: exact, in columns of their types.

    Of an update, the long text that it does not touch is known not to have come; of a delete, the
    key is known.
    """
    database = source.create_database("shop")
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    source.execute(f"CREATE TABLE orders ({columns})", "shop")
    source.execute("ALTER TABLE orders ADD COLUMN essay text", "shop")
    source.execute("ALTER TABLE orders ALTER COLUMN essay SET STORAGE EXTERNAL", "shop")
    for row in ROWS:
        source.execute(f"INSERT INTO orders VALUES {row}".replace(":", "\\:"), "shop")
    captured = capture(format, database, **{"skipped.operations": "none"})
    wait_until(lambda: captured.end() == len(ROWS), "the snapshot is not there", 60)
    for change in CHANGES:
        source.execute(change, "shop")
    wait_until(lambda: captured.end() == len(ROWS) + 5, "changes are not there", 60)
    stream = captured.stream()
    harness.run(stream, "one", spark)
    table = DeltaTable(f"{stream.table.uri}_decoded")
    rows = table.to_pyarrow_table().sort_by("offset").to_pylist()
    second = FOUND[1] | {"small": 7}
    assert [{name: row[name] for name in TYPES} for row in rows[:6]] == [*FOUND, *[second] * 2, KEY]
    assert [row["op"] for row in rows] == ["r", "r", "r", "u", "u", "d", None, "t"]
    assert [row["key_id"] for row in rows] == [1, 2, 3, 2, 2, 2, 2, None]
    assert [row["essay"] for row in rows[:5]] == [None, None, None, ESSAY, None]
    names = [row["unavailable_columns"] for row in rows]
    assert names == [None, None, None, None, ["essay"], None, None, None]
    assert [row["is_tombstone"] for row in rows] == [False] * 6 + [True, False]
    assert {row["snapshot"] for row in rows[:3]} == {"first", "true", "last"}
    assert "lsn" in json.loads(rows[4]["source_position"])
    fields = {field.name: field.type for field in table.schema().fields}
    wanted = {"at": "timestamp_ntz", "at_milli": "timestamp_ntz", "zoned": "timestamp"}
    wanted |= {"price": "decimal(38,6)", "free": "string", "day": "date", "small": "long"}
    assert {name: fields[name].type for name in wanted} == wanted
