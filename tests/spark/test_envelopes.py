"""Debezium's envelope: the columns are the changed row's, and the event's own stand beside them."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pyspark.sql.types import StructType

from tests.worlds.connect_json import base64_of, field, of, record, schema
from tests.worlds.raw_tables import avro, decoded, job_of
from tests.worlds.rows import raw_row
from tideline.decoding.schemas.envelope import untold_columns
from tideline.decoding.schemas.merging import reader_schema
from tideline.decoding.spark.judging import judge
from tideline.decoding.spark.row_columns import typed
from tideline.model.decoding import (
    KEPT_BY_DEFAULT,
    OF_ENVELOPE,
    EventDate,
    Expectation,
    FieldChoice,
    PartPlan,
    ReaderSchema,
    WriterSchema,
)
from tideline.table.schema import COLUMNS, delta_fields

RAW = {"type": "struct", "fields": [*delta_fields(COLUMNS)]}
GONE = "__debezium_unavailable_value"
AT_MS = 1_700_000_000_123
AT = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
TYPES = {
    "id": of("int64"),
    "note": of("string"),
    "raw": of("bytes"),
    "tags": of("array", items=of("string")),
    "counts": of("array", items=of("int64")),
    "op": of("int32"),
    "day": of("int32", "io.debezium.time.Date"),
    "days": of("array", items=of("int32", "io.debezium.time.Date")),
    "raws": of("array", items=of("bytes")),
    "pairs": of("map", keys=of("string"), values=of("string")),
}
ROW = schema(*(field(name, kind) for name, kind in TYPES.items()), name="orders.Value")
SOURCE = schema(
    field("version", of("string")),
    field("ts_ms", of("int64")),
    field("snapshot", of("string")),
    field("lsn", of("int64")),
    field("sequence", of("string")),
)
EVENT = schema(
    field("before", ROW | {"optional": True}),
    field("after", ROW | {"optional": True}),
    field("source", SOURCE),
    field("transaction", schema(field("id", of("string")), field("total_order", of("int64")))),
    field("op", of("string")),
    field("ts_ms", of("int64")),
)
KEY = schema(field("id", of("int64")), name="orders.Key")
FULL = {
    "id": 1,
    "note": "a",
    "raw": base64_of(b"x"),
    "tags": ["t"],
    "counts": [7],
    "op": 3,
    "day": 1,
    "days": [1],
    "raws": [base64_of(b"x")],
    "pairs": {"a": None},
}
OWN = (*KEPT_BY_DEFAULT, *OF_ENVELOPE)


def event(op, after=None, before=None, **more):
    """A change event's payload."""
    source = {"version": "3", "ts_ms": AT_MS, "snapshot": "false", "lsn": 42, "sequence": None}
    return {"op": op, "after": after, "before": before, "source": source, "ts_ms": 1} | more


def part_of(*schemas, name="value", envelope=True, fields=()):
    """How events, or their keys, are decoded."""
    is_event = envelope and name == "value"
    writers = [WriterSchema(n, json.dumps(s), f"{n}", f"s:{n}") for n, s in enumerate(schemas, 1)]
    merged = reader_schema(
        name, "connect", writers, None, fields=fields, envelope=is_event, unavailable=is_event
    )
    assert not merged.misfits, merged.misfits
    assert not merged.refused
    return PartPlan(
        name,
        "json",
        "connect",
        "s",
        merged.writers,
        (),
        (),
        merged.reader,
        fields=tuple(fields),
        envelope="debezium" if is_event else None,
        unavailable=GONE if is_event else None,
    )


def changes(spark, folder, events, *, fields=(), lenient=(), **plan):
    """Typed and quarantined rows of events, each with the key of row 1."""
    key = record(KEY, {"id": 1})
    values = (None if e is None else record(EVENT, e) for e in events)
    rows = [raw_row(n, value, key=key) for n, value in enumerate(values)]
    value = replace(part_of(EVENT, fields=fields), lenient=lenient)
    parts = [value, part_of(KEY, name="key")]
    return decoded(spark, job_of(folder, rows, parts, own_columns=OWN, **plan))[1:]


def test_the_columns_are_those_of_the_row(spark, tmp_path):
    """Of a delete, what it tells and what its key tells; a tombstone stays one."""
    events = [
        event("r", FULL, transaction={"id": "7:1", "total_order": 1}),
        event("u", FULL | {"note": "b"}),
        event("d", before=dict.fromkeys(FULL) | {"day": 2}),
        None,
        event("t"),
    ]
    typed, bad = changes(spark, tmp_path, events)
    assert bad == []
    assert [row["op"] for row in typed] == ["r", "u", "d", None, "t"]
    assert [row["id"] for row in typed] == [1, 1, 1, None, None]
    assert [row["note"] for row in typed] == ["a", "b", None, None, None]
    assert [row["value_op"] for row in typed] == [3, 3, None, None, None]
    assert [row["is_tombstone"] for row in typed] == [False, False, False, True, False]
    first = typed[0]
    assert (first["source_timestamp"], first["snapshot"]) == (AT, "false")
    assert (first["transaction_id"], typed[1]["transaction_id"]) == ("7:1", None)
    assert json.loads(first["source_position"]) == {"lsn": 42}
    assert (first["raw"], first["tags"], first["counts"]) == (b"x", ["t"], [7])
    assert str(typed[2]["day"]) == "1970-01-03"
    assert {row["unavailable_columns"] for row in typed} == {None}


def test_updates_without_a_row_of_before_are_counted_where_a_null_may_be_an_untold_value(
    spark, tmp_path
):
    """Of PostgreSQL's, and where a column is of a type whose long values come as null."""
    events = [event("c", FULL), event("u", FULL), event("u", FULL, FULL), event("d", before=FULL)]
    floats = [{**one, "field": "floats"} for one in [of("array", items=of("double"))]]
    for more, lsn, count in ((floats, True, 1), (floats, False, 0), ([], True, 0)):
        row = ROW | {"fields": [*ROW["fields"], *more], "optional": True}
        source = SOURCE if lsn else SOURCE | {"fields": SOURCE["fields"][:3]}
        made = {"before": row, "after": row, "source": source}
        own = [{**made.get(f["field"], f), "field": f["field"]} for f in EVENT["fields"]]
        schema = EVENT | {"fields": own}
        part = part_of(schema)
        assert untold_columns(part) == (("floats",) if count else ())
        values = [raw_row(n, record(schema, e)) for n, e in enumerate(events)]
        job = job_of(tmp_path / f"{len(more)}{lsn}", values, [part], own_columns=OWN)
        result, _, bad = decoded(spark, job)
        assert (result.bare_updates, bad) == (count, [])


def test_what_a_delete_tells_is_asked_once_and_not_by_each_column(spark, tmp_path, capsys):
    """Twice the columns are a plan of twice the length; Spark planned for minutes."""
    spark.session.conf.set("spark.sql.debug.maxToStringFields", "10000")
    lengths = []
    for count in (20, 40):
        names = [field(f"c{n}", of("string")) for n in range(count)]
        row = schema(field("id", of("int64")), *names, name="orders.Value") | {"optional": True}
        own = [field("before", row), field("after", row), *EVENT["fields"][2:]]
        parts = [part_of(schema(*own)), part_of(KEY, name="key")]
        plan = job_of(tmp_path / f"{count}", [b""], parts, own_columns=OWN).plan
        raw = spark.session.createDataFrame([], StructType.fromJson(RAW))
        raw.transform(judge(plan)).transform(typed(plan)).explain("extended")
        lengths.append(len(capsys.readouterr().out))
    spark.session.conf.unset("spark.sql.debug.maxToStringFields")
    assert 1.5 < lengths[1] / lengths[0] < 2.5


def test_values_that_did_not_come_are_named_and_never_stored(spark, tmp_path):
    """A column that holds all of a placeholder, in any form; one that has more is a value."""
    raw = GONE.encode()
    away = {
        "note": GONE,
        "raw": base64_of(raw),
        "tags": [GONE],
        "counts": [*raw],
        "days": [*raw],
        "raws": [base64_of(raw)],
        "pairs": {GONE: GONE},
    }
    texts = [raw.hex(), base64_of(raw), json.dumps({GONE: GONE}, separators=(",", ":"))]
    events = [event("u", FULL | away), *(event("u", FULL | {"note": text}) for text in texts)]
    more = {"tags": [GONE, "t"], "note": GONE + ".", "counts": [*raw, 1], "days": [*raw][1:]}
    more |= {"raws": [base64_of(raw)] * 2, "pairs": {GONE: GONE, "a": GONE}}
    events += [event("u", FULL | more), event("u", FULL | {"pairs": {GONE: None}, "tags": [None]})]
    typed, bad = changes(spark, tmp_path, events)
    assert bad == []
    assert [typed[0][name] for name in away] == [None] * len(away)
    assert typed[0]["unavailable_columns"] == [*away]
    assert [(row["note"], row["unavailable_columns"]) for row in typed[1:4]] == [
        (None, ["note"])
    ] * 3
    assert (typed[4]["tags"], typed[4]["note"]) == ([GONE, "t"], GONE + ".")
    assert [row["unavailable_columns"] for row in typed[4:]] == [None, None]


def test_what_changes_no_row_is_set_aside_and_called_so(spark, tmp_path):
    events = [
        event("m"),
        event(None),
        event("u"),
        event("x", FULL),
        event("c", FULL),
    ]
    typed, bad = changes(spark, tmp_path, events)
    assert [row["offset"] for row in typed] == [4]
    assert [(row["error_class"], row["error"]) for row in bad] == [
        ("no_change", "op is m: the event changes no row"),
        ("type_mismatch", "op is null: no operation of Debezium's"),
        ("type_mismatch", "op is u, and after is null"),
        ("type_mismatch", "op is x: no operation of Debezium's"),
    ]
    assert {row["part"] for row in bad} == {"value"}


def test_chosen_fields_are_of_the_row(spark, tmp_path):
    fields = (FieldChoice("after.note", "text"), FieldChoice("after.id"))
    typed, _ = changes(spark, tmp_path, [event("c", FULL), event("d", before=FULL)], fields=fields)
    own = {*OWN, "topic_id", "generation", "partition", "offset", "decode_plan_id"}
    names = [name for name in typed[0] if name not in {*own, "unavailable_columns"}]
    assert names == ["text", "id", "key_id"]
    assert [(row["text"], row["id"]) for row in typed] == [("a", 1), ("a", 1)]


def test_a_delete_has_the_day_of_kafkas_time_where_it_does_not_tell_its_own(spark, tmp_path):
    day = EventDate("day", datetime(1970, 1, 1).date(), datetime(2100, 1, 1).date(), "quarantine")
    events = [event("c", FULL), event("d", before=dict.fromkeys(FULL)), event("d", before=FULL)]
    events += [event("u", FULL | {"day": None})]
    typed, bad = changes(spark, tmp_path, events, event_date=day)
    assert [str(row["event_date"]) for row in typed][::2] == ["1970-01-02", "1970-01-02"]
    assert typed[1]["event_date"] == typed[1]["timestamp"].date()
    assert [row["error_class"] for row in bad] == ["event_time"]


def test_a_time_that_is_too_far_away_breaks_no_record(spark, tmp_path):
    """Of the source's clock or of a field: the smallest long is a number as others are."""
    far = [-(2**63), 2**63 - 1, -(9 * 10**15) - 1, 9 * 10**15 + 1]
    source = {"snapshot": "false"}
    events = [event("c", FULL | {"id": t}, source=source | {"ts_ms": t}) for t in (*far, AT_MS)]
    typed, bad = changes(spark, tmp_path, events)
    assert bad == []
    assert [row["source_timestamp"] for row in typed] == [None] * 4 + [AT]
    day = EventDate("id", datetime(1970, 1, 1).date(), datetime(2100, 1, 1).date(), "quarantine")
    typed, bad = changes(spark, tmp_path / "by day", events, event_date=day)
    assert ([r["offset"] for r in typed], {r["error_class"] for r in bad}) == ([4], {"event_time"})


def test_what_rows_are_expected_to_meet(spark, tmp_path):
    """Deletes are not asked; what a change did not bring fails nothing."""
    events = [
        event("c", FULL),
        event("u", FULL | {"note": GONE}),
        event("u", FULL | {"note": None}),
        event("d", before=dict.fromkeys(FULL)),
    ]
    expect = (Expectation("noted", "length(note) > 0", "quarantine"),)
    expect += (Expectation("created", "op <> 'c'", "count"),)
    typed, bad = changes(spark, tmp_path, events, expect=expect)
    assert [row["offset"] for row in typed] == [0, 1, 3]
    assert [(row["offset"], row["part"], row["error"]) for row in bad] == [
        (2, "value", "fails noted")
    ]


def test_avro_as_well(spark, tmp_path):
    """`before` and `after` are of one named type, which is written once."""
    text = ["null", "string"]
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    row["fields"] += [{"name": "note", "type": text, "default": None}]
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "fields": [
                        {"name": "ts_ms", "type": "long"},
                        {"name": "file", "type": "string"},
                        {"name": "pos", "type": "long"},
                    ],
                },
            },
            {"name": "op", "type": "string"},
        ],
    }
    source = {"ts_ms": AT_MS, "file": "binlog.1", "pos": 9}
    events = [
        {"op": "c", "before": None, "after": {"id": 1, "note": "a"}, "source": source},
        {"op": "u", "before": None, "after": {"id": 1, "note": GONE}, "source": source},
        {"op": "d", "before": {"id": 1, "note": None}, "after": None, "source": source},
    ]
    writer = WriterSchema(1, json.dumps(envelope), "1", "s:1", schema_type="avro")
    merged = reader_schema("value", "avro", [writer], None, envelope=True, unavailable=True)
    assert not merged.misfits
    part = PartPlan("value", "avro", "confluent", "s", merged.writers, (), (), merged.reader)
    part = replace(part, envelope="debezium", unavailable=GONE)
    values = [avro(envelope, e, 1) for e in events]
    _, typed, bad = decoded(spark, job_of(tmp_path, values, [part], own_columns=OWN))
    assert bad == []
    assert [(r["op"], r["id"], r["note"]) for r in typed] == [
        ("c", 1, "a"),
        ("u", 1, None),
        ("d", 1, None),
    ]
    assert json.loads(typed[0]["source_position"]) == {"file": "binlog.1", "pos": 9}
    assert [r["unavailable_columns"] for r in typed] == [None, ["note"], None]


def test_without_an_envelope_placeholders_are_known_where_the_file_says_so(spark, tmp_path):
    part = part_of(ROW, envelope=False)
    values = [record(ROW, FULL | {"note": GONE}), record(ROW, FULL)]
    _, typed, _ = decoded(spark, job_of(tmp_path, values, [part]))
    assert [row["note"] for row in typed] == [GONE, "a"]
    part = replace(part, unavailable=GONE)
    _, typed, _ = decoded(spark, job_of(tmp_path / "other", values, [part]))
    assert [row["note"] for row in typed] == [None, "a"]
    assert [row["unavailable_columns"] for row in typed] == [["note"], None]


TIME = of("int64", "org.apache.kafka.connect.data.Timestamp")
NO_EVENTS = {
    "a flattened record": schema(field("id", of("int64")), field("__op", of("string"))),
    "a row that is a text": schema(
        field("after", of("string")), field("op", of("string")), field("source", SOURCE)
    ),
}
for name, kind in {"a text": of("string"), "a time": TIME, "a fraction": of("double")}.items():
    told = schema(field("ts_ms", kind), field("snapshot", of("string")))
    NO_EVENTS[f"a source's time that is {name}"] = schema(
        field("after", ROW), field("op", of("string")), field("source", told)
    )
NO_EVENTS["an op that is a number"] = schema(
    field("after", ROW), field("op", of("int32")), field("source", SOURCE)
)
NO_EVENTS["a source that is a text"] = schema(
    field("after", ROW), field("op", of("string")), field("source", of("string"))
)
OTHERS = {
    "a heartbeat": schema(
        field("ts_ms", of("int64")), name="io.debezium.connector.common.Heartbeat"
    ),
    "a message": schema(
        field("op", of("string")), field("source", SOURCE), field("message", of("string"))
    ),
}


@pytest.mark.parametrize("name", [*NO_EVENTS, *OTHERS])
def test_which_schemas_are_of_debezium(name):
    writers = [WriterSchema(1, json.dumps(EVENT), "1", "s:1")]
    writers += [WriterSchema(2, json.dumps((NO_EVENTS | OTHERS)[name]), "2", "s:2")]
    merged = reader_schema("value", "connect", writers, None, envelope=True, unavailable=True)
    assert [str(m).split(":")[0] for m in merged.misfits] == ["s"] * (name in NO_EVENTS)


def test_what_an_event_says_of_itself_is_a_text_whatever_its_type(spark, tmp_path):
    """MySQL's connector had a boolean as the mark of a snapshot once."""
    source = schema(field("ts_ms", of("int64")), field("snapshot", of("boolean")))
    told = schema(
        field("after", ROW | {"optional": True}),
        field("source", source),
        field("transaction", schema(field("id", of("int64")))),
        field("op", of("string")),
    )
    events = [event("c", FULL, source={"ts_ms": 1, "snapshot": s}) for s in (True, None)]
    values = [record(told, e | {"transaction": {"id": 7}}) for e in events]
    job = job_of(tmp_path, values, [part_of(told)], own_columns=OWN)
    _, typed, bad = decoded(spark, job)
    assert bad == []
    assert [(r["snapshot"], r["transaction_id"]) for r in typed] == [("true", "7"), (None, "7")]


def test_a_new_field_of_the_row_is_a_new_column_that_nobody_has_asked_for():
    more = schema(*ROW["fields"], field("more", of("string")), name="orders.Value")
    event_of_more = schema(field("before", more), field("after", more), *EVENT["fields"][2:])
    writers = [WriterSchema(1, json.dumps(EVENT), "1", "s:1")]
    first = reader_schema("value", "connect", writers, None, envelope=True)
    writers += [WriterSchema(2, json.dumps(event_of_more), "2", "s:2")]
    second = reader_schema("value", "connect", writers, first.reader, envelope=True)
    assert [(c.field, c.column) for c in second.changes] == [("after.more", "more")]
    assert isinstance(second.reader, ReaderSchema)
    fields = (FieldChoice("after.id"),)
    chosen = reader_schema("value", "connect", writers[:1], None, fields=fields, envelope=True)
    after = reader_schema("value", "connect", writers, chosen.reader, fields=fields, envelope=True)
    assert [*after.changes] == []
    assert [c.name for c in after.reader.in_table] == ["id"]


FAR = 2**31 - 1
"""Days since 1970 that are beyond the calendar."""


def test_a_value_that_its_column_cannot_hold_is_null_and_named(spark, tmp_path):
    """Of the row after a change, of a deleted row, beside a value that did not come."""
    events = [
        event("u", FULL | {"day": FAR, "note": GONE}, FULL | {"day": FAR}),
        event("u", FULL | {"days": [1, FAR]}),
        event("u", FULL, FULL | {"day": FAR}),
        event("d", before=FULL | {"day": FAR}),
        event("d", before=dict.fromkeys(FULL) | {"id": 1, "day": FAR}),
        None,
    ]
    typed, bad = changes(spark, tmp_path, events, lenient=("day", "days"))
    assert bad == []
    names = ("id", "note", "unavailable_columns", "invalid_columns")
    assert [tuple(row[name] for name in names) for row in typed] == [
        (1, None, ["note"], ["day"]),
        (1, "a", None, ["days"]),
        (1, "a", None, None),
        (1, "a", None, ["day"]),
        (1, None, None, ["day"]),
        (None, None, None, None),
    ]
    assert [str(row["day"]) for row in typed[1:3]] == ["1970-01-02"] * 2
