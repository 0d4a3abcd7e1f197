"""The records of several event types, routed by the application: each is counted once."""

from dataclasses import replace
from pathlib import Path

import pytest

import decode_rows
from tests.worlds.raw_tables import avro, avro_part, framing, job_of, rows_of
from tests.worlds.rows import raw_row
from tideline.model.decoding import AGAIN, OTHER_TYPES, Expectation, ReaderSchema, TypePlan
from tideline.model.spark_job import Output, TypedOutput

CREATED, PAID, KEY = (
    {"type": "record", "name": name, "fields": [{"name": field, "type": kind}]}
    for name, field, kind in (
        ("Created", "id", "long"),
        ("Paid", "total", "double"),
        ("Key", "id", "long"),
    )
)
HEADERS = [{"key": "__value_schema_id", "value": b"\0"}]


def part(name, writers, schema, columns, **facts):
    """How the records of a type are decoded."""
    return replace(avro_part(writers, schema, columns), type=name, **facts)


ONE = part("created", {1: CREATED}, CREATED, {"id": "long"})
TWO = part("paid", {2: PAID}, PAID, {"total": "double"}, unfit=(3,))
BARE = replace(TWO, writers=(), reader=ReaderSchema("value", "avro", "", ()))
OTHERS = replace(avro_part({}, CREATED, {}, foreign=(4, 9)), type=OTHER_TYPES, subject="*")
KEYS = avro_part({4: KEY}, KEY, {"id": "long"}, part="key")


def created(number, **others):
    return raw_row(number, avro(CREATED, {"id": number}, 1), **others)


def paid(number, schema_id=2, **others):
    return raw_row(number, avro(PAID, {"total": 1.0}, schema_id), **others)


def decoded(spark, folder, records, *parts, expect=(), offsets=1_000, **plan):
    """The result, offsets by type, and offset and class of the others."""
    types = tuple(TypePlan(n, str(folder / n), tuple(expect)) for n in ("created", "paid"))
    facts = {"types": types, "tombstones": "drop", "table_uri": "", **plan}
    job = job_of(folder, records, (*parts, OTHERS), offsets=offsets, **facts)
    to = {t.name: TypedOutput(Output(t.table_uri, "decoded-1")) for t in types}
    result = decode_rows.execute(spark.session, replace(job, types=to))
    there = {name: [row["offset"] for row in rows_of(one.output)] for name, one in to.items()}
    bad = [(row["offset"], row["error_class"]) for row in rows_of(job.quarantine)]
    return result, there, bad


@pytest.mark.parametrize("offsets", [1_000, 1_000_000], ids=["interpreted", "compiled"])
def test_each_record_is_counted_once(spark, tmp_path, offsets):
    """Also one with nearly an id, with the id of a key's schema, and with an id in a header."""
    records = [
        *(created(0), created(1, headers=HEADERS), paid(2), raw_row(3, None)),
        *(raw_row(4, avro(KEY, {"id": 1}, 4)), raw_row(5, framing(9)), raw_row(6, b"noise")),
        *(raw_row(7, b""), raw_row(8, framing(1)[:4]), raw_row(9, framing(1))),
        *(paid(10, 3), paid(11, 3, headers=HEADERS), created(12, key=b"no key")),
        *(raw_row(13, framing(9), headers=HEADERS), raw_row(14, b"x", headers=HEADERS)),
    ]
    result, there, bad = decoded(spark, tmp_path, records, ONE, TWO, KEYS, offsets=offsets)
    assert there == {"created": [0, 1], "paid": [2]}
    assert bad == [
        *((4, "other_type"), (5, "other_type"), (6, "framing"), (7, "framing"), (8, "framing")),
        *((9, "malformed"), (10, "type_mismatch"), (11, "framing"), (12, "framing")),
        *((13, "framing"), (14, "framing")),
    ]
    assert (result.raw_rows, result.tombstones, result.bad_of_types) == (15, 1, 4)
    assert {name: rows.rows for name, rows in result.by_type.items()} == {"created": 2, "paid": 1}
    assert not result.asks_again


def test_a_record_is_read_by_the_schema_that_its_id_names(spark, tmp_path):
    """Of several of one type, whose records would be read as one another's; a header is no id."""
    fields = [{"name": name, "type": "long"} for name in ("id", "amount")]
    one, other = (
        {"type": "record", "name": "Created", "fields": [*order]}
        for order in (fields, reversed(fields))
    )
    both = part("created", {1: one, 258: other}, one, {"id": "long", "amount": "long"})
    told = {"id": 7, "amount": 9}
    values = (avro(one, told, 1), avro(other, told, 258))
    records = [raw_row(0, values[0]), *(raw_row(n, values[1], headers=HEADERS) for n in (1, 2))]
    folder, plan = tmp_path, {"types": (TypePlan("created", str(tmp_path / "created")),)}
    job = job_of(folder, records, (both, OTHERS), tombstones="drop", table_uri="", **plan)
    to = TypedOutput(Output(str(folder / "created"), "decoded-1"))
    result = decode_rows.execute(spark.session, replace(job, types={"created": to}))
    rows = [(r["offset"], r["schema_id"], r["id"], r["amount"]) for r in rows_of(to.output)]
    assert sorted(rows) == [(0, 1, 7, 9), (1, 258, 7, 9), (2, 258, 7, 9)]
    assert (result.decoded.rows, result.raw_rows, result.bad_of_types) == (3, 3, 0)


def test_there_is_a_pass_for_those_types_that_have_records(spark, tmp_path):
    """Whichever is the first; each pass reads all raw files."""
    for name, record in (("created", created(0)), ("paid", paid(0))):
        folder = tmp_path / name
        result, there, bad = decoded(spark, folder, [record, raw_row(1, b"noise")], ONE, TWO)
        assert there == {"created": [], "paid": []} | {name: [0]}
        assert bad == [(1, "framing")]
        assert (result.decoded.rows, result.raw_rows) == (1, 2)
    assert not Path(tmp_path, "created", "paid").exists()


@pytest.mark.parametrize("redrives", [(), AGAIN], ids=["new", "again"])
def test_a_type_without_a_schema_that_fits_has_no_columns_to_expect_of(spark, tmp_path, redrives):
    """Its records go where they go without expectations."""
    rules = (Expectation("large", "total > 5", "quarantine"),)
    types = {"types": (TypePlan("created", str(tmp_path / "created")),)}
    types["types"] += (TypePlan("paid", str(tmp_path / "paid"), rules),)
    records = [created(0), paid(1, 3)]
    result, there, bad = decoded(spark, tmp_path, records, ONE, BARE, redrives=redrives, **types)
    assert there == {"created": [0], "paid": []}
    assert bad == [(1, "type_mismatch")]
    assert result.failed == {"paid.large": 0}
