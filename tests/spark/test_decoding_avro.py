"""Avro records become typed rows; a bad one breaks only itself."""

import io
import json
import struct
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Context, Decimal

import fastavro
import pytest

from tests.worlds.raw_tables import avro, avro_part, decoded, framing, job_of, plain_avro
from tests.worlds.rows import raw_row
from tests.worlds.semantics import ANY_SCALE, connect
from tests.worlds.semantics import decimal as connect_decimal
from tests.worlds.spark_ways import by_connect, by_spark_submit, comes_out_the_same
from tideline.decoding.schemas.merging import reader_schema
from tideline.model.decoding import PartPlan, WriterSchema

V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
V2 = V1 | {"fields": [*V1["fields"], {"name": "note", "type": ["null", "string"]}]}
V3 = V1 | {"fields": [{"name": "id", "type": "long"}, {"name": "total", "type": "double"}]}


def nullable(name, kind):
    return {"name": name, "type": ["null", kind], "default": None}


READER = V1 | {
    "fields": [
        nullable("id", "long"),
        nullable("note", "string"),
        nullable("total", "double"),
        {"name": "_ok", "type": "int", "default": 1},
    ]
}
COLUMNS = {"id": "long", "note": "string", "total": "double"}
GOOD = avro(V2, {"id": 1, "note": "fine"}, 2)
FORGED = {
    "string": b"\x02\x02\xfc\xff\xff\xff\x0f",
    "beyond an int": b"\x02\x02\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "below zero": b"\x02\x02\x01",
}
BAD = {
    "no bytes": (b"", "framing"),
    "four bytes": (framing(2)[:4], "framing"),
    "another magic byte": (b"\x01" + GOOD[1:], "framing"),
    "an id beyond an int": (b"\0\xff\xff\xff\xff" + GOOD[5:], "framing"),
    "an id that the registry does not know": (framing(77) + GOOD[5:], "unknown_schema"),
    "an id of another subject": (framing(88) + GOOD[5:], "wrong_subject"),
    "nothing behind the id": (framing(2), "malformed"),
    "cut off": (GOOD[:-1], "malformed"),
    "cut off inside the number": (framing(2) + b"\x80", "malformed"),
    "a branch that the union has not": (framing(2) + b"\x02\x08", "malformed"),
    "one byte more": (GOOD + b"\0", "trailing_bytes"),
    "a whole record more": (GOOD + GOOD[5:], "trailing_bytes"),
    "bytes that are no text": (GOOD[:-1] + b"\xff", "invalid_utf8"),
    "half a character": (GOOD[:-1] + b"\xc3", "invalid_utf8"),
    **{f"forged {name}": (framing(2) + data, "malformed") for name, data in FORGED.items()},
}


def part(**others):
    return avro_part({1: V1, 2: V2, 3: V3}, READER, COLUMNS, unknown=(77,), foreign=(88,), **others)


def decode(spark, tmp_path, rows, parts=None, **others):
    return decoded(spark, job_of(tmp_path, rows, parts or [part()], **others))


def test_three_writers_in_one_batch(spark, tmp_path):
    """A field that a later writer has removed keeps its values; a wider type holds the older."""
    rows = [
        raw_row(0, avro(V1, {"id": -1}, 1)),
        raw_row(1, avro(V2, {"id": 2, "note": "é"}, 2)),
        raw_row(2, avro(V3, {"id": 2**40, "total": 0.5}, 3)),
        raw_row(3, avro(V2, {"id": 0, "note": None}, 2)),
    ]
    result, typed, bad = decode(spark, tmp_path, rows)
    assert (result.raw_rows, result.tombstones, bad) == (4, 0, [])
    assert [(r["schema_id"], r["id"], r["note"], r["total"]) for r in typed] == [
        (1, -1, None, None),
        (2, 2, "é", None),
        (3, 2**40, None, 0.5),
        (2, 0, None, None),
    ]
    assert list(typed[0]) == [
        *("topic_id", "generation", "topic", "partition", "offset", "timestamp"),
        *("is_tombstone", "schema_id", *COLUMNS, "decode_plan_id"),
    ]


def every_kind():
    """Bad records, each between two good ones."""
    rows = [raw_row(0, GOOD)]
    for data, _ in BAD.values():
        rows += [raw_row(len(rows), data, key=b"k"), raw_row(len(rows) + 1, GOOD)]
    return rows


def test_a_bad_record_breaks_only_itself(spark, tmp_path):
    """Each kind has its class, and its neighbours are decoded."""
    result, typed, bad = decode(spark, tmp_path, every_kind())
    assert {r["offset"] % 2 for r in typed} == {0}
    assert {r["note"] for r in typed} == {"fine"}
    assert len(typed) == len(BAD) + 1
    found = dict(zip(BAD, ((r["value"], r["error_class"]) for r in bad), strict=True))
    assert found == BAD
    assert all(r["error"] and r["part"] == "value" and r["key"] == b"k" for r in bad)
    assert sum(result.classes.values()) == len(bad) == len(BAD)


@pytest.mark.slow
@pytest.mark.parametrize("way", [by_spark_submit, by_connect])
def test_in_whatever_spark_a_bad_record_breaks_only_itself(spark, tmp_path, request, way):
    """In 1 GB of heap: forged lengths end no JVM, since each one has Avro's limits."""

    def job_for(folder, offsets):
        return job_of(folder, every_kind(), [part()], offsets=offsets)

    comes_out_the_same(spark, way, request, tmp_path, job_for)


NESTED = {
    "type": "record",
    "name": "Cart",
    "fields": [
        {"name": "names", "type": {"type": "array", "items": "string"}},
        {"name": "by_name", "type": {"type": "map", "values": "string"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": ["null", "string"]}],
                },
            },
        },
    ],
}
NESTED_COLUMNS = {
    "names": {"type": "array", "elementType": "string", "containsNull": True},
    "by_name": {
        "type": "map",
        "keyType": "string",
        "valueType": "string",
        "valueContainsNull": True,
    },
    "lines": {
        "type": "array",
        "elementType": {
            "type": "struct",
            "fields": [{"name": "sku", "type": "string", "nullable": True, "metadata": {}}],
        },
        "containsNull": True,
    },
}


def test_text_is_checked_wherever_it_is(spark, tmp_path):
    """In arrays, in maps' keys and values, and in records inside."""
    cart = {"names": ["aXXa"], "by_name": {"bXXb": "cXXc"}, "lines": [{"sku": "dXXd"}, {}]}
    good = avro(NESTED, cart | {"lines": [{"sku": "dXXd"}, {"sku": None}]}, 5)
    places = (b"aXXa", b"bXXb", b"cXXc", b"dXXd")
    broken = [good.replace(p, p.replace(b"X", b"\xff")) for p in places]
    empty = avro(NESTED, {"names": [], "by_name": {}, "lines": []}, 5)
    rows = [good, *broken, empty]
    part = avro_part({5: NESTED}, NESTED, NESTED_COLUMNS)
    _, typed, bad = decode(spark, tmp_path, rows, [part])
    assert [r["error_class"] for r in bad] == ["invalid_utf8"] * 4
    assert [r["offset"] for r in typed] == [0, 5]
    assert typed[0]["lines"] == [{"sku": "dXXd"}, {"sku": None}]
    assert typed[0]["by_name"] == [("bXXb", "cXXc")]


def test_records_without_framing(spark, tmp_path):
    """One schema wrote them all; no row has an id."""
    part = avro_part({-1: V1}, READER, COLUMNS, framing="plain")
    rows = [raw_row(0, avro(V1, {"id": 5})), raw_row(1, b"\x80"), raw_row(2, b""), raw_row(3, None)]
    _, typed, bad = decode(spark, tmp_path, rows, [part])
    assert [(r["offset"], r["id"], r["schema_id"]) for r in typed] == [
        (0, 5, None),
        (3, None, None),
    ]
    assert [(r["error_class"], r["schema_id"]) for r in bad] == [("malformed", None)] * 2


def test_every_id_is_unknown(spark, tmp_path):
    """There is no writer at all, and no row is typed."""
    part = avro_part({}, READER, COLUMNS, unknown=(2,))
    result, typed, bad = decode(spark, tmp_path, [raw_row(0, GOOD)], [part])
    assert (typed, result.decoded.rows) == ([], 0)
    assert [(r["error_class"], r["schema_id"]) for r in bad] == [("unknown_schema", 2)]


def test_in_the_last_round_ids_that_nobody_has_looked_up_are_told_from_unknown_ones(
    spark, tmp_path
):
    """Whoever reads the quarantine must not look for them in the registry in vain."""
    part = avro_part({}, READER, COLUMNS, unknown=(2,))
    rows = [raw_row(0, GOOD), raw_row(1, framing(77) + GOOD[5:])]
    job = replace(job_of(tmp_path, rows, [part]), is_last_round=True)
    result, _, bad = decoded(spark, job)
    assert result.unasked == 1
    assert [(r["error_class"], r["error"]) for r in bad] == [
        ("unknown_schema", "schema 2 is not in the registry"),
        (
            "unknown_schema",
            "schema 77 was not looked up: the records bring more new ids than a run asks for",
        ),
    ]


MEANT = {
    "day": connect("int", "io.debezium.time.Date"),
    "milli": connect("long", "io.debezium.time.Timestamp"),
    "micro": connect("long", "io.debezium.time.MicroTimestamp"),
    "zoned": connect("string", "io.debezium.time.ZonedTimestamp"),
    "scaled": connect_decimal(2),
    "any": ANY_SCALE,
}
MEANT_GOOD = {
    "day": 19_754,
    "milli": 1_706_745_599_999,
    "micro": -1,
    "zoned": "2026-01-31T23:59:59.123456+02:00",
    "scaled": b"\x00\xff",
    "any": {"scale": 3, "value": (-1_100).to_bytes(2, signed=True)},
}
FAR = {"scale": 0, "value": b"1"}
MEANT_BAD = {
    "a zoned time without its zone": ({"zoned": "2026-01-31T23:59:59"}, "type_mismatch"),
    "infinity of PostgreSQL's": ({"micro": 9_223_372_036_825_200_000}, "out_of_range"),
    "a day before the calendar": ({"day": -2_147_483_648}, "out_of_range"),
    "a time after it": ({"zoned": "9999-12-31T23:59:59-01:00"}, "out_of_range"),
    "digits beyond 38": ({"scaled": (10**38).to_bytes(16)}, "out_of_range"),
    "a scale that would fill the memory": (
        {"any": {"scale": 2**31 - 1, "value": b"1"}},
        "out_of_range",
    ),
    "one below zero": ({"any": {"scale": -(2**31), "value": b"1"}}, "out_of_range"),
    "a decimal without digits": ({"any": {"scale": 0, "value": b""}}, "malformed"),
    "a zoned time that is no text": ({"zoned": b"\xff" * 25}, "invalid_utf8"),
}


def test_logical_types_of_connect_s_are_what_they_mean(spark, tmp_path):
    """Exact, in columns of their own types; what these cannot hold is set aside."""
    schema = V1 | {"fields": [{"name": n, "type": t} for n, t in MEANT.items()]}
    text = json.dumps(schema).replace('"string"', '"bytes"')  # so that any bytes can be sent
    rows = [MEANT_GOOD, *(MEANT_GOOD | wrong for wrong, _ in MEANT_BAD.values())]
    given = [avro(json.loads(text), row | {"zoned": to_bytes(row["zoned"])}) for row in rows]
    part = plain_avro(schema)
    job = job_of(tmp_path, given, [part])
    _, (good,), bad = decoded(spark, job)
    assert {name: good[name] for name in MEANT} == {
        "day": date(2024, 2, 1),
        "milli": datetime(2024, 1, 31, 23, 59, 59, 999_000),
        "micro": datetime(1969, 12, 31, 23, 59, 59, 999_999),
        "zoned": datetime(2026, 1, 31, 21, 59, 59, 123_456, UTC),
        "scaled": Decimal("2.55"),
        "any": "-1.100",
    }
    found = [(row["error_class"], row["offset"]) for row in bad]
    assert found == [(name, n) for n, (_, name) in enumerate(MEANT_BAD.values(), 1)]


def to_bytes(value):
    return value if isinstance(value, bytes) else value.encode()


def test_times_far_away_break_nothing(spark, tmp_path):
    """A time that no calendar has is out of range; years of one digit are kept."""
    when = {"type": "long", "logicalType": "timestamp-millis"}
    writer = V1 | {"fields": [{"name": "at", "type": when}]}
    part = avro_part({1: writer}, V1 | {"fields": [nullable("at", when)]}, {"at": "timestamp"})
    plain = V1 | {"fields": [{"name": "at", "type": "long"}]}
    times = (0, -62_135_596_800_000, 2**62)
    rows = [raw_row(n, avro(plain, {"at": at}, 1)) for n, at in enumerate(times)]
    _, typed, bad = decode(spark, tmp_path, rows, [part])
    assert [r["at"].year for r in typed] == [1970, 1]
    assert [r["error_class"] for r in bad] == ["out_of_range"]


def test_forged_counts_of_items_take_no_memory(spark, tmp_path):
    """An array or a map claims to have more items than there are bytes, or than memory holds."""
    many = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    large = b"\x80\x80\x80\x80\x08"
    forged = [framing(5) + count for count in (many, large, b"\x00" + many, b"\x00" + large)]
    good = avro(NESTED, {"names": [], "by_name": {}, "lines": []}, 5)
    rows = [*forged, good]
    part = avro_part({5: NESTED}, NESTED, NESTED_COLUMNS)
    _, typed, bad = decode(spark, tmp_path, rows, [part])
    assert ([r["offset"] for r in typed], {r["error_class"] for r in bad}) == ([4], {"malformed"})


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


KINDS = {
    "paid": "boolean",
    "n": "long",
    "small": "int",
    "share": "float",
    "price": logical("bytes", "decimal", precision=38, scale=2),
    "day": logical("int", "date"),
    "at": logical("long", "timestamp-millis"),
    "instant": logical("long", "timestamp-micros"),
    "names": {"type": "map", "values": "long"},
    "holes": {"type": "array", "items": "null"},
}


def zigzag(number):
    return fastavro_written("long", number)


def fastavro_written(kind, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, kind, value)
    return out.getvalue()


def digits(number):
    data = number.to_bytes(20, "big", signed=True)
    return zigzag(len(data)) + data


RULES = [
    ("n", zigzag(9007199254740993), 9007199254740993),
    ("small", zigzag(2**31), "malformed"),
    ("paid", b"\2", "malformed"),
    ("share", struct.pack("<f", float("inf")), float("inf")),
    ("price", digits(10**38 - 1), Decimal(10**38 - 1).scaleb(-2, Context(prec=40))),
    ("price", digits(10**38), "out_of_range"),
    ("price", digits(-(10**38)), "out_of_range"),
    ("price", digits(2**64 + 5), Decimal(2**64 + 5).scaleb(-2)),
    ("price", zigzag(0), "malformed"),
    ("day", zigzag(-719162), date(1, 1, 1)),
    ("day", zigzag(2932896), date(9999, 12, 31)),
    ("day", zigzag(2932897), "out_of_range"),
    ("day", zigzag(-719163), "out_of_range"),
    ("at", zigzag(253402300800000), "out_of_range"),
    ("at", zigzag(2**62), "out_of_range"),
    ("instant", zigzag(-62135596800000001), "out_of_range"),
    ("names", zigzag(2) + b"\2a\2" + b"\2a\4" + b"\0", [("a", 2)]),
    ("names", zigzag(-1) + zigzag(3) + b"\2a\2" + b"\0", [("a", 1)]),
    ("names", zigzag(-1) + zigzag(2) + b"\2a\2" + b"\0", "malformed"),
    ("names", zigzag(-1) + zigzag(2**63 - 1) + b"\2a\2" + b"\0", "malformed"),
    ("names", zigzag(-(2**63)) + zigzag(3) + b"\2a\2" + b"\0", "malformed"),
    ("names", zigzag(1) + b"\2\xff\2" + b"\0", "invalid_utf8"),
    ("holes", zigzag(1000) + b"\0", None),
    ("holes", zigzag(1001) + b"\0", "malformed"),
    ("holes", zigzag(2**60) + b"\0", "malformed"),
]
"""The table of docs/decoding.md, and more: a field, its bytes, its value or the error's class."""


def test_each_rule(spark, tmp_path):
    """Exact, or set aside."""
    fields = [{"name": name, "type": ["null", kind]} for name, kind in KINDS.items()]
    writer = WriterSchema(5, json.dumps(V1 | {"fields": fields}), "", "orders-value:1")
    merged = reader_schema("value", "avro", [writer], None)
    part = PartPlan(
        "value", "avro", "confluent", "orders-value", merged.writers, (), (), merged.reader
    )
    rows = [
        framing(5) + b"".join(b"\2" + data if name == field else b"\0" for name in KINDS)
        for field, data, _ in RULES
    ]
    _, typed, bad = decode(spark, tmp_path, rows, [part])
    found = {r["offset"]: r["error_class"] for r in bad}
    found |= {r["offset"]: r.get(RULES[r["offset"]][0]) for r in typed}
    assert [found[n] for n in range(len(RULES))] == [wanted for *_, wanted in RULES]
