"""Listed fields and chosen columns, by a real Spark: nested values, headers, a day of a field."""

import json
from datetime import UTC, date, datetime

import pytest

from tests.worlds.raw_tables import avro, decode, framing
from tests.worlds.rows import raw_row
from tideline.decoding.schemas.merging import reader_schema
from tideline.model.decoding import EventDate, FieldChoice, PartPlan, WriterSchema

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "name", "type": "string"}, {"name": "id", "type": "int"}],
}
OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "note", "type": "string"}, {"name": "customer", "type": CUSTOMER}],
}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "note", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "customer", "type": ["null", CUSTOMER]},
    ],
}
JSON = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "note": {"type": "integer"},
        "customer": {
            "type": "object",
            "properties": {"the name": {"type": "string"}, "id": {"type": "integer"}},
        },
    },
}
CHOICES = (FieldChoice("customer.id", "who"), FieldChoice("at"), FieldChoice("customer"))
AT = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)


def part(format, *schemas, choices=CHOICES):
    """How values are decoded that carry the ids 1, 2 and so on."""
    writers = [WriterSchema(1 + n, json.dumps(s), "", f"v{n}") for n, s in enumerate(schemas)]
    merged = reader_schema("value", format, writers, None, (), choices)
    assert not merged.misfits
    writers, reader = merged.writers, merged.reader
    return PartPlan("value", format, "confluent", "s", writers, (), (), reader, fields=choices)


def values(format):
    """What stands in Kafka, and what becomes of it."""
    if format == "avro":
        old, new = {"note": "x", "customer": {"name": "ann", "id": 7}}, {"note": 1.5, "at": AT}
        return [
            (avro(OLD, old, 1), (7, None, {"name": "ann", "id": 7})),
            (avro(NEW, {**new, "customer": None}, 2), (None, AT, None)),
            (avro(NEW, {**new, "customer": {"name": "bob", "id": 8}}, 2)[:-1], None),
        ]
    head = framing(1)
    return [
        (
            head + b'{"at":"2026-05-06T07:08:09Z","note":"no number","customer":{"id":7}}',
            (7, AT, {"the_name": None, "id": 7}),
        ),
        (head + b'{"other":[1],"customer":null}', (None, None, None)),
        (head + b'{"customer":{"id":"x"}}', None),
    ]


@pytest.mark.parametrize("format", ["avro", "json"])
def test_listed_fields_become_columns(spark, tmp_path, format):
    """Fields beside them are not looked at, be they wrong; a bad one is still a bad record."""
    headers = [{"key": "trace", "value": b"\1"}]
    rows = [raw_row(n, value, headers=headers) for n, (value, _) in enumerate(values(format))]
    decodes = part(format, JSON) if format == "json" else part(format, OLD, NEW)
    _, typed, bad = decode(
        spark,
        tmp_path,
        rows,
        [decodes],
        own_columns=("is_tombstone", "headers"),
        event_date=EventDate("at", date(2026, 1, 1), date(2026, 12, 31), "catch_all"),
    )
    own = ["topic_id", "generation", "partition", "offset", "is_tombstone", "headers"]
    names = [*own, "event_date", "who", "at", "customer", "decode_plan_id"]
    good = {n: made for n, (_, made) in enumerate(values(format)) if made is not None}
    assert [list(row) for row in typed] == [names] * len(good)
    assert {r["offset"]: (r["who"], r["at"], r["customer"]) for r in typed} == good
    assert all(r["headers"] == headers for r in typed)
    dates = {r["offset"]: r["event_date"] for r in typed}
    assert dates == {n: AT.date() if made[1] else None for n, made in good.items()}
    assert [r["offset"] for r in bad] == [2]
    assert bad[0]["topic"] == "orders"


def test_no_listed_field_is_there_yet(spark, tmp_path):
    """A schema that comes later may bring one; until then the rows have none."""
    decodes = part("avro", OLD, choices=(FieldChoice("later"),))
    value = avro(OLD, {"note": "x", "customer": {"name": "ann", "id": 7}}, 1)
    result, (row,), (bad,) = decode(spark, tmp_path, [value, value + b"x"], [decodes])
    assert (result.raw_rows, row["offset"], bad["error_class"]) == (2, 0, "trailing_bytes")
