"""Kafka Connect's JSON: each record brings its schema."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from tests.worlds.colliding import same_hash, same_low_bits
from tests.worlds.connect_json import KINDS, base64_of, field, of, record, schema
from tests.worlds.raw_tables import decoded, job_of
from tests.worlds.streams import is_clean
from tests.worlds.typed_streams import Typed
from tideline.decoding.schemas.merging import reader_schema
from tideline.model.decoding import PartPlan, ReaderSchema, WriterSchema
from tideline.model.request import RunRequest
from tideline.operations.maintaining import maintain_stream
from tideline.wiring import open_run, open_tables

TYPES = {
    **KINDS,
    "small": of("int16"),
    "tags": of("array", items=of("string")),
    "inside": schema(field("at", of("int64", "io.debezium.time.MicroTimestamp"))),
}
ORDERS = schema(*(field(name, kind) for name, kind in TYPES.items()), name="orders.Value")
GOOD = {
    "id": 9_007_199_254_740_993,
    "small": -3,
    "ratio": 0.1,
    "note": "é",
    "paid": True,
    "raw": base64_of(b"\0\xff"),
    "day": 19_754,
    "milli": 1_706_745_599_999,
    "micro": -1,
    "zoned": "2026-01-31T23:59:59.123456+02:00",
    "total": base64_of(b"\x00\xff"),
    "any": {"scale": 3, "value": base64_of((-1_100).to_bytes(2, signed=True))},
    "tags": ["a", None],
    "counts": {"x": 1},
    "inside": {"at": 0},
}
ROW = {
    **GOOD,
    "raw": b"\0\xff",
    "day": date(2024, 2, 1),
    "milli": datetime(2024, 1, 31, 23, 59, 59, 999_000),
    "micro": datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "zoned": datetime(2026, 1, 31, 21, 59, 59, 123_456, UTC),
    "total": Decimal("2.55"),
    "any": "-1.100",
    "counts": [("x", 1)],
    "inside": {"at": datetime(1970, 1, 1)},
}
OTHERS = {
    "a decimal in its own digits": ({"total": 2.5}, {"total": Decimal("2.50")}),
    "one with zeros behind": ({"total": 1e2}, {"total": Decimal("100.00")}),
    "no number of a float's": ({"ratio": "NaN"}, {"ratio": "nan"}),
    "infinity": ({"ratio": "-Infinity"}, {"ratio": "-inf"}),
    "a whole number": ({"ratio": 3}, {"ratio": 3.0}),
    "nothing at all": (dict.fromkeys(TYPES), dict.fromkeys(TYPES)),
}
BAD = {
    "a number as text": ({"id": "1"}, "type_mismatch"),
    "a number beyond 64 bits": ({"id": 2**63}, "out_of_range"),
    "no Base64": ({"raw": "%"}, "type_mismatch"),
    "Base64 without its padding": ({"raw": "AA"}, "type_mismatch"),
    "bytes that are a number": ({"raw": 1}, "type_mismatch"),
    "a day that is text": ({"day": "2024-02-01"}, "type_mismatch"),
    "a day before the calendar": ({"day": -(2**31)}, "out_of_range"),
    "infinity of PostgreSQL's": ({"micro": 9_223_372_036_825_200_000}, "out_of_range"),
    "milliseconds that wrap": ({"milli": 2**63 - 1}, "out_of_range"),
    "a zoned time without its zone": ({"zoned": "2026-01-31T23:59:59"}, "type_mismatch"),
    "digits beyond 38": ({"total": base64_of((10**38).to_bytes(16))}, "out_of_range"),
    "a decimal without digits": ({"total": ""}, "type_mismatch"),
    "digits beyond the scale": ({"total": 0.001}, "type_mismatch"),
    "a decimal with its scale and no digits": ({"any": {"scale": 1}}, "type_mismatch"),
    "a scale that would fill the memory": (
        {"any": {"scale": 2**31 - 1, "value": base64_of(b"1")}},
        "out_of_range",
    ),
    "a list that is none": ({"tags": "a"}, "type_mismatch"),
}
FRAMING = {
    "no document": (b"nonsense", "framing"),
    "a document without a schema": (json.dumps(GOOD).encode(), "framing"),
    "a schema that is null": (json.dumps({"schema": None, "payload": GOOD}).encode(), "framing"),
    "a list": (b"[1]", "framing"),
    "no payload": (json.dumps({"schema": ORDERS}).encode(), "type_mismatch"),
    "cut off": (record(ORDERS, GOOD)[:-1], "malformed"),
    "text behind it": (record(ORDERS, GOOD) + b"1", "trailing_bytes"),
    "bytes that are no text": (
        record(ORDERS, GOOD | {"note": "XX"}).replace(b"XX", b"\xff"),
        "invalid_utf8",
    ),
    "a decimal with its scale twice": (
        record(ORDERS, GOOD).replace(b'{"scale": 3', b'{"scale": 3, "scale": 3'),
        "duplicate_field",
    ),
    "two payloads": (record(ORDERS, GOOD)[:-1] + b', "payload": {}}', "duplicate_field"),
}


def part_of(*schemas, unfit=(), name="value"):
    """A plan's part that knows some schemas, by ids from 1 on."""
    writers = [
        WriterSchema(n, json.dumps(one), f"{n}", f"s:{n}") for n, one in enumerate(schemas, 1)
    ]
    reader = ReaderSchema(name, "json", "", ())
    if writers:
        merged = reader_schema(name, "connect", writers, None)
        assert not merged.misfits
        reader, writers = merged.reader, merged.writers
    return PartPlan(name, "json", "connect", "s", tuple(writers), (), (), reader, unfit=unfit)


def test_each_value_is_what_it_means(spark, tmp_path):
    """Exact, in columns of their own types."""
    rows = [GOOD, *(GOOD | other for other, _ in OTHERS.values())]
    job = job_of(tmp_path, [record(ORDERS, row) for row in rows], [part_of(ORDERS)])
    _, typed, bad = decoded(spark, job)
    assert [row["error"] for row in bad] == []
    wanted = [ROW, *(ROW | other for _, other in OTHERS.values())]
    for row, expected in zip(typed, wanted, strict=True):
        found = {name: row[name] for name in TYPES}
        if isinstance(expected["ratio"], str):
            found["ratio"] = str(found["ratio"])
        assert found == expected


def test_what_a_column_cannot_hold_is_set_aside(spark, tmp_path):
    rows = [record(ORDERS, GOOD | wrong) for wrong, _ in BAD.values()]
    rows += [data for data, _ in FRAMING.values()]
    job = job_of(tmp_path, [*rows, record(ORDERS, GOOD)], [part_of(ORDERS)])
    _, typed, bad = decoded(spark, job)
    assert [row["offset"] for row in typed] == [len(rows)]
    found = dict(zip([*BAD, *FRAMING], (row["error_class"] for row in bad), strict=True))
    assert found == {name: kind for name, (_, kind) in (BAD | FRAMING).items()}


def test_schemas_that_the_plan_does_not_have_are_told_with_their_texts(spark, tmp_path):
    """By their bytes, wherever in the document they stand."""
    other = schema(field("id", of("string")))
    behind = json.dumps({"payload": {"id": "1"}, "schema": other}).encode()
    rows = [record(ORDERS, GOOD), record(other, {"id": "1"}), behind, record(ORDERS, GOOD), b"x"]
    result, _, _ = decoded(spark, job_of(tmp_path, rows, [part_of()]))
    texts = {json.dumps(ORDERS), json.dumps(other)}
    assert ({*result.new_schemas["value"]}, result.new_ids) == (texts, {})
    unfit = ((7, hashlib.sha256(json.dumps(other).encode()).hexdigest()),)
    part = replace(part_of(ORDERS, unfit=(7,)), unfit_digests=unfit)
    _, typed, bad = decoded(spark, job_of(tmp_path / "two", rows, [part]))
    assert [row["offset"] for row in typed] == [0, 3]
    assert [(row["offset"], row["schema_id"], row["error_class"]) for row in bad] == [
        (1, 7, "type_mismatch"),
        (2, 7, "type_mismatch"),
        (4, None, "framing"),
    ]


def test_records_of_a_schema_that_nobody_has_looked_at_say_so(spark, tmp_path):
    """In the last round; a redrive asks on."""
    job = job_of(tmp_path, [record(ORDERS, GOOD)], [part_of()])
    result, _, (bad,) = decoded(spark, replace(job, is_last_round=True))
    assert (bad["error_class"], bad["schema_id"], result.unasked) == ("unknown_schema", None, 1)
    assert bad["error"].startswith("schema was not looked up")


MINE = schema(field("id", of("int64")), field("mallory", of("string")))
THEIRS = schema(
    field("id", of("int64")), field("price", KINDS["total"]), field("city", of("string"))
)
PAIRS = {"all": same_hash(THEIRS, MINE), "the lower 31 bits": same_low_bits(THEIRS, MINE)}


@pytest.mark.parametrize("alike", PAIRS)
def test_schemas_that_are_built_to_have_one_hash_are_two(spark, tmp_path, alike):
    """Spark itself says that they have; the plan knows the one, and the other is new, or unfit."""
    theirs, mine = PAIRS[alike]
    texts = [json.dumps(one).encode() for one in (theirs, mine)]
    first, second = (
        row[0]
        for row in spark.session.createDataFrame([(t,) for t in texts], "t binary")
        .select(F.xxhash64("t"))
        .collect()
    )
    assert len(texts[0]) == len(texts[1])
    assert (first == second, (first ^ second) & (2**31 - 1)) == (alike == "all", 0)
    row = {"id": 1, "price": base64_of(b"\x00\xff"), "city": "Kiel"}
    rows = [record(mine, {"id": 2, "mallory": "x"}), record(theirs, row)]
    result, _, _ = decoded(spark, job_of(tmp_path, rows, [part_of(mine)]))
    assert result.new_schemas == {"value": (json.dumps(theirs),)}
    unfit = ((7, hashlib.sha256(texts[1]).hexdigest()),)
    for name, writer, digests in (("both", [mine, theirs], ()), ("one", [theirs], unfit)):
        part = replace(part_of(*writer, unfit=(7,)), unfit_digests=digests)
        _, typed, bad = decoded(spark, job_of(tmp_path / name, rows, [part]))
        found = {r["offset"]: r for r in typed}
        assert {n: found[1][n] for n in row} == row | {"price": Decimal("2.55")}
        assert [*found, *(r["offset"] for r in bad)] == ([0, 1] if name == "both" else [1, 0])


def test_producers_of_one_topic_do_not_reach_each_others_records(harness, registry, spark):
    """Whoever is first. Keys and values bring the same bytes, and have schemas of their own."""
    part = {"format": "json", "framing": "connect"}
    at = Typed(harness, registry, spark, "connect-alike", value=part, key={**part})
    row = {"id": 2, "price": base64_of(b"\x00\xff"), "city": "Kiel"}
    (theirs, mine), (others, my_other) = PAIRS.values()
    for first in (True, False):  # whose schema is known before the other one
        values = (mine, others) if first else (theirs, my_other)
        for one, fields in zip(
            values, ({"id": 1, "mallory": "x"}, row)[:: 1 if first else -1], strict=True
        ):
            at.send_bytes(record(one, fields), key=record(one, fields))
        at.run(f"first-{first}")
    wanted = {(1, None, None, "x", 1, "x"), (2, Decimal("2.55"), "Kiel", None, 2, None)}
    found = at.rows("id", "price", "city", "mallory", "key_id", "key_mallory")
    assert ({row[2:] for row in found}, len(found)) == (wanted, 4)
    assert at.bad("offset") == []
    rows = at.rows("schema_id")
    assert len({number for *_, number in rows}) == 4
    assert is_clean(at.harness, at.stream)


@pytest.mark.parametrize("key", ["struct", pytest.param("number", marks=pytest.mark.slow)])
def test_keys_and_values_of_a_real_topic(harness, registry, spark, key):
    """A schema changes on its way, a record is bad, a run is cleared; no registry is asked."""
    part = {"format": "json", "framing": "connect"}
    at = Typed(harness, registry, spark, f"connect-{key}", value=part, key={**part})
    kind = schema(field("id", of("int64"))) if key == "struct" else of("int64")
    column = "key_id" if key == "struct" else "key_value"

    def send(of_value, payload, number):
        given = {"id": number} if key == "struct" else number
        at.send_bytes(record(of_value, payload), key=record(kind, given))

    more = schema(*ORDERS["fields"], field("late", of("string")))
    send(ORDERS, GOOD, 1)
    at.run("one")
    send(more, GOOD | {"late": "yes"}, 2)
    send(ORDERS, GOOD | {"id": "no number"}, 3)
    at.send_bytes(None, key=record(kind, {"id": 4} if key == "struct" else 4))
    at.run("two")
    wanted = [(0, 0, GOOD["id"], 1, None), (0, 1, GOOD["id"], 2, "yes"), (0, 3, None, 4, None)]
    assert at.rows("id", column, "late") == wanted
    assert at.bad("error_class") == [(0, 2, "type_mismatch")]
    before = at.rows("id", column, "late", "schema_id", "decode_plan_id")
    at.decode("one")
    at.decode("two")
    assert at.rows("id", column, "late", "schema_id", "decode_plan_id") == before
    meant = at.rows("day", "milli", "micro", "zoned", "total", "any", "tags")
    with open_run(at.stream, "maintain", RunRequest(), at.spark) as run:
        maintain_stream(run, open_tables(at.stream))
    at.decode("one")  # out of a merged file, and in again
    assert at.rows("day", "milli", "micro", "zoned", "total", "any", "tags") == meant
    again = at.decode_again("again")
    assert (again.asked, again.changed, again.quarantine_changed) == (4, 0, 0)
    assert is_clean(at.harness, at.stream)
