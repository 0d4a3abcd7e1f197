"""Long values that an update leaves alone: real TOAST, of every type of Debezium's own switch."""

import pytest
from deltalake import DeltaTable

from devstack.process import wait_until
from tests.worlds.postgres_types import of_an_extension
from tideline.stream.stream import tables_of

TOLD = {
    "plain": ("text", "repeat('x', 9000)"),
    "varied": ("varchar(9000)", "repeat('x', 9000)"),
    "padded": ("char(9000)", "repeat('x', 8999)"),
    "free": ("citext", "repeat('X', 9000)::citext"),
    "doc": ("json", "('\"' || repeat('x', 9000) || '\"')::json"),
    "docb": ("jsonb", "('\"' || repeat('x', 9000) || '\"')::jsonb"),
    "tree": ("ltree", "repeat('abcdefgh.', 900)::ltree"),
    "texts": ("text[]", "array_fill('abcdefgh'::text, ARRAY[1000])"),
    "varieds": ("varchar(9)[]", "array_fill('abcdefgh'::varchar, ARRAY[1000])"),
    "paddeds": ("char(9)[]", "array_fill('abcdefgh'::char(9), ARRAY[1000])"),
    "docs": ("json[]", "array_fill('{\"a\": 1}'::json, ARRAY[1000])"),
    "docbs": ("jsonb[]", "array_fill('{\"a\": 1}'::jsonb, ARRAY[1000])"),
    "ints": ("integer[]", "array_fill(7, ARRAY[3000])"),
    "longs": ("bigint[]", "array_fill(7::bigint, ARRAY[3000])"),
    "days": ("date[]", "array_fill('2024-02-29'::date, ARRAY[3000])"),
    "refs": ("uuid[]", "array_fill('6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10'::uuid, ARRAY[900])"),
    "pairs": ("hstore", "('\"a\"=>\"' || repeat('x', 9000) || '\"')::hstore"),
    "raw": ("bytea", "decode(repeat('00ff', 9000), 'hex')"),
    "raws": ("bytea[]", "array_fill('\\x00ff'::bytea, ARRAY[1000])"),
}
"""Columns for which Debezium writes a placeholder."""
UNTOLD = {
    "flags": ("boolean[]", "array_fill(true, ARRAY[9000])"),
    "smalls": ("smallint[]", "array_fill(7::smallint, ARRAY[9000])"),
    "reals": ("float8[]", "array_fill(0.5::float8, ARRAY[3000])"),
    "times": ("timestamp[]", "array_fill('2024-02-29'::timestamp, ARRAY[3000])"),
    "prices": ("numeric[]", "array_fill(0.5::numeric, ARRAY[3000])"),
    "digits": ("numeric", "('0.' || repeat('7', 9000))::numeric"),
}
"""Columns for which Debezium itself writes null: nobody downstream can tell."""
TEXTS_ARE_NULL = {"hex": {"raws"}, "base64": {"raw", "raws"}, "base64-url-safe": {"raw", "raws"}}
"""By `binary.handling.mode`, what Debezium 3.2 writes as null as well."""
WAYS = [
    ("json", "bytes", "json", None),
    ("avro", "hex", "map", "hex:00ff7e6f6e65"),
    ("json", "base64", "map", "a>>?away??"),
    ("avro", "base64-url-safe", "json", None),
]


@pytest.mark.parametrize(("format", "binary", "hstore", "text"), WAYS)
def test_a_long_value_that_an_update_leaves_alone_stays(
    source, capture, harness, spark, format, binary, hstore, text
):
    """Each is null and named in the typed row, and in the current table as it was."""
    database = source.create_database("shop")
    every = TOLD | UNTOLD
    for name in ("hstore", "citext", "ltree"):
        for statement in of_an_extension(name):
            source.execute(statement, "shop")
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in every.items())
    source.execute(f"CREATE TABLE orders (id bigint PRIMARY KEY, n int, {columns})", "shop")
    for name in every:
        source.execute(f"ALTER TABLE orders ALTER COLUMN {name} SET STORAGE EXTERNAL", "shop")
    values = ", ".join(value for _, value in every.values()).replace(":", "\\:")
    settings = {"binary.handling.mode": binary, "hstore.handling.mode": hstore}
    value = {} if text is None else {"unavailable_value": text}
    if text is not None:
        settings["unavailable.value.placeholder"] = text
    captured = capture(format, database, **settings)
    source.execute(f"INSERT INTO orders VALUES (1, 1, {values})", "shop")
    source.execute("UPDATE orders SET n = n + 1", "shop")
    wait_until(lambda: captured.end() == 2, "the changes are not there", 60)
    stream = captured.stream(value=value, current={"table": {"buckets": 1}})
    harness.run(stream, "one", spark)
    typed = DeltaTable(f"{stream.table.uri}_decoded").to_pyarrow_table().sort_by("offset")
    made, updated = typed.to_pylist()
    untold = {*UNTOLD, *TEXTS_ARE_NULL.get(binary, ())}
    assert [n for n in every if made[n] is None and n != "digits"] == []
    assert [n for n in every if updated[n] is not None] == []
    assert {*every} - {*(updated["unavailable_columns"] or ())} == untold
    (row,) = DeltaTable(tables_of(stream)["current"]).to_pyarrow_table().to_pylist()
    assert row["n"] == 2
    assert [n for n in every if n not in untold and row[n] != made[n]] == []
