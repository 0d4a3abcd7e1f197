"""Every broken stream file is refused with file, line, key, value and what is allowed."""

import json
import time
from itertools import pairwise
from typing import get_args

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from tideline.errors import StreamFileError
from tideline.model.verdicts import POLICIES
from tideline.stream.files import parse_stream, read_stream
from tideline.stream.parsing import types_in, words_at_top
from tideline.stream.stream import Stream, json_schema_of, tables_of

GOOD = """\
stream: orders
kafka:
  topics: [orders]
table:
  uri: /data/lake/orders
"""

DECODED = (
    GOOD
    + """\
registry: {}
decode:
  value: {format: avro, subject: orders-value}
  table: {uri: /data/lake/orders_decoded}
  quarantine: {uri: /data/lake/orders_quarantine}
"""
)

CURRENT = GOOD + "decode: {value: {format: json}}\n"
BESIDE = DECODED[: DECODED.index("  table: {uri: /data/lake/orders_decoded")]
LISTED = DECODED.replace("subject: orders-value}", "subject: orders-value, fields: %s}")
OWN = DECODED.replace("orders_decoded}", "orders_decoded, own_columns: %s}")

BROKEN = {
    "unknown key": (GOOD + "shedule: daily\n", 6, "shedule", "schedule"),
    "unknown nested key": (
        GOOD.replace("  topics", "  topicz: 1\n  topics"),
        3,
        "kafka.topicz",
        "topic_pattern",
    ),
    "missing key": ("stream: orders\nkafka:\n  topics: [a]\n", 1, "table", "required"),
    "wrong type": (
        GOOD + "limits:\n  max_records_per_run: many\n",
        7,
        "limits.max_records_per_run",
        "integer",
    ),
    "out of range": (
        GOOD + "limits:\n  max_records_per_partition: 0\n",
        7,
        "limits.max_records_per_partition",
        "greater than or equal to 1",
    ),
    "no such choice": (
        GOOD + "on_reset:\n  truncation: ignore\n",
        7,
        "on_reset.truncation",
        "accept_loss",
    ),
    "a store's connection without a store": (
        GOOD + "  connection: lake\n",
        4,
        "table",
        "connection: only with addresses in an object store",
    ),
    "runs by lag without a clock": (
        GOOD + "trigger: {lag_records: 5}\n",
        6,
        "trigger",
        "needs a schedule beside it",
    ),
    "runs by no lag": (
        GOOD + "schedule: '@daily'\ntrigger: {poll_seconds: 5}\n",
        7,
        "trigger",
        "give lag_records, lag_seconds or both",
    ),
    "two kinds of store": (
        GOOD.replace("/data/lake", "s3a://lake") + "ledger_uri: gs://lake/orders.ledger\n",
        4,
        "table",
        "all addresses of a stream are in one kind of store, and one account",
    ),
    "two accounts of Azure's": (
        GOOD.replace("/data/lake", "abfss://lake@one.dfs.core.windows.net")
        + "ledger_uri: abfss://lake@two.dfs.core.windows.net/orders.ledger\n",
        4,
        "table",
        "got abfss://lake@one.dfs.core.windows.net/orders and abfss://lake@two",
    ),
    "a policy that not every class allows": (
        GOOD + "on_reset: accept_loss\n",
        6,
        "on_reset",
        "allowed for all classes: fail, approve; or keys: a class each",
    ),
    "a list of policies": (
        GOOD + "on_reset: [approve]\n",
        6,
        "on_reset",
        "keys below it: retention_loss, truncation",
    ),
    "policy of another class": (
        GOOD + "on_reset:\n  retention_loss: retire\n",
        7,
        "on_reset.retention_loss",
        "'approve'",
    ),
    "contradiction": (
        GOOD.replace("topics: [orders]", "topics: [orders]\n  topic_pattern: 'o.*'"),
        2,
        "kafka",
        "either topics or topic_pattern",
    ),
    "relative path": (GOOD.replace("/data/lake", "lake"), 5, "table.uri", "absolute path"),
    "bucket without a path": (
        GOOD.replace("/data/lake/orders", "s3a://lake/"),
        5,
        "table.uri",
        "s3a://lake/orders",
    ),
    "empty part of a path in a store": (
        GOOD.replace("/data/lake", "s3a://lake/"),
        5,
        "table.uri",
        "without empty parts",
    ),
    "path that climbs": (GOOD.replace("/data/lake", "/data/../etc"), 5, "table.uri", "'..'"),
    "path with a quote": (
        GOOD.replace("lake/orders", "lake/o`r"),
        5,
        "table.uri",
        "without '`'; it has",
    ),
    "time without a zone": (
        GOOD + "start:\n  timestamp: 2026-01-01T00:00:00\n",
        7,
        "start.timestamp",
        "UTC offset",
    ),
    "two starts": (
        GOOD + "start: {group: g, timestamp: 2026-01-01T00:00:00Z}\n",
        6,
        "start",
        "exactly one",
    ),
    "a schedule without data intervals": (
        GOOD + 'schedule: "@once"\n',
        6,
        "schedule",
        "by hand",
    ),
    "a schedule without an end": (
        GOOD + 'schedule: "@continuous"\n',
        6,
        "schedule",
        "without data intervals",
    ),
    "no such preset": (GOOD + 'schedule: "@minutely"\n', 6, "schedule", "@hourly, @daily"),
    "a preset that Airflow does not know": (
        GOOD + 'schedule: "@midnight"\n',
        6,
        "schedule",
        "@hourly, @daily",
    ),
    "no cron expression": (GOOD + "schedule: hourly-ish\n", 6, "schedule", "five fields"),
    "no such zone": (GOOD + "timezone: Mars/Olympus\n", 6, "timezone", "IANA"),
    "no regular expression": (
        GOOD.replace("topics: [orders]", "topic_pattern: '('"),
        3,
        "kafka.topic_pattern",
        "regular expression",
    ),
    "a truth value for a number": (
        GOOD + "limits: {max_records_per_run: true}\n",
        6,
        "limits.max_records_per_run",
        "integer",
    ),
    "no such day": (
        GOOD + "airflow: {start_date: 2026-02-30}\n",
        6,
        "(file)",
        "'2026-02-30': day is out of range",
    ),
    "an unknown tag": (GOOD + "timezone: !zone UTC\n", 6, "(file)", "constructor"),
    "a list for a key": (GOOD + "? [a, b]\n: 1\n", 6, "(file)", "a key has to be a word"),
    "an alias": (GOOD + "a: &a [1]\nb: *a\n", 6, "(file)", "without anchors and aliases"),
    "an anchor": (GOOD + "airflow: &a {owner: ann}\n", 6, "(file)", "without anchors"),
    "nested too deeply": (GOOD + f"a: {'[' * 100}\n", 6, "(file)", "at most 20 levels"),
    "a crash of the parser": (GOOD + f"a: {'[' * 200_000}\n", 6, "(file)", "at most 20 levels"),
    "the name of an operation": (
        GOOD.replace("stream: orders", "stream: tideline_audit"),
        1,
        "stream",
        "name of an operation's Dag",
    ),
    "a ledger inside the table": (
        GOOD + "ledger_uri: /data/lake/orders/ledger\n",
        6,
        "ledger_uri",
        "inside the other",
    ),
    "a table's address for a ledger in a database": (
        GOOD + "ledger: airflow\nledger_uri: /data/lake/ledger\n",
        7,
        "ledger_uri",
        "only with ledger: delta; here ledger is airflow",
    ),
    "a connection for a ledger in a table": (
        GOOD + "ledger_connection: tideline_ledger\n",
        6,
        "ledger_connection",
        "only with ledger: airflow; here ledger is delta",
    ),
    "no such ledger": (GOOD + "ledger: zookeeper\n", 6, "ledger", "'delta' or 'airflow'"),
    "a transform without a function": (
        DECODED + "  transform: my_company.orders\n",
        11,
        "decode.transform",
        "module:function",
    ),
    "a message of Avro": (
        DECODED.replace("format: avro", "format: avro, message: shop.Order"),
        8,
        "decode.value",
        "message is for format protobuf only",
    ),
    "what is neither null nor quarantine": (
        DECODED + "  on_value: {price: drop}\n",
        11,
        "decode.on_value.price",
        "'null' or 'quarantine'",
    ),
    "a null for the event's time": (
        DECODED + "  event_time: {field: at}\n  on_value: {at: null}\n",
        7,
        "decode",
        "on_value.at cannot be null: event_time.field names that column",
    ),
    "a null for a single value": (
        DECODED.replace("avro, subject: orders-value", "text") + "  on_value: {value: null}\n",
        7,
        "decode",
        "value.format text takes no on_value",
    ),
    "a column that is called as the table's own": (
        DECODED.replace("orders-value}", "orders-value, fields: [{field: a, as: Invalid_columns}]}")
        + "  on_value: {b: null}\n",
        7,
        "decode",
        "a column invalid_columns of its own",
    ),
    "no such format": (DECODED.replace("avro", "csv"), 8, "decode.value.format", "'avro'"),
    "a schema file that is not there": (
        DECODED.replace("subject: orders-value", "schema: orders.avsc"),
        8,
        "decode.value.schema",
        "no such file",
    ),
    "subject and schema": (
        DECODED.replace("subject:", "schema: pyproject.toml, subject:"),
        8,
        "decode.value",
        "either subject or schema",
    ),
    "Avro without a schema": (
        DECODED.replace(", subject: orders-value", ""),
        8,
        "decode.value",
        "either subject or schema",
    ),
    "ids without a subject": (
        DECODED.replace("avro, subject: orders-value", "json, framing: confluent"),
        8,
        "decode.value",
        "framing confluent needs a subject",
    ),
    "fields without a schema": (
        DECODED.replace("avro, subject: orders-value", "json, fields: [at]"),
        8,
        "decode.value",
        "fields are chosen of a schema's",
    ),
    "a subject and no registry": (
        DECODED.replace("registry: {}\n", ""),
        1,
        "registry",
        "decode names the subject orders-value",
    ),
    "a fold at no time": (
        CURRENT + "current: {key: [k], every: 1.5}\n",
        7,
        "current.every",
        "a share from 0 to 1, or a cron expression",
    ),
    "a fold by a schedule that never comes": (
        CURRENT + "current: {key: [k], every: 0 0 30 2 *}\n",
        7,
        "current.every",
        "no such date ever comes",
    ),
    "tombstones that can delete nothing": (
        CURRENT + "current: {key: [k]}\n",
        7,
        "current",
        "a record without a value has no columns but those of decode.key",
    ),
    "a key that is called as the table's bucket": (
        CURRENT + "current: {key: [k, Bucket], deletes: {tombstone: false}}\n",
        7,
        "current.key.1",
        "the current table has a column bucket of its own",
    ),
    "a key that is called as the table's order": (
        CURRENT.replace("}}", "}, tombstones: drop}")
        + "current: {key: [sequence_1], sequence_by: [at]}\n",
        7,
        "current.key.0",
        "the current table has a column sequence_1 of its own",
    ),
    "an order that a tombstone has no place in": (
        CURRENT + "current: {key: [k], sequence_by: [updated_at]}\n",
        7,
        "current",
        "a record without a value has no updated_at",
    ),
    "a row's column as the order of change events": (
        CURRENT.replace("json}", "json, framing: connect, envelope: debezium}")
        + "current: {key: [k], sequence_by: [updated_at]}\n",
        7,
        "current",
        "with an envelope allowed: source_timestamp, timestamp",
    ),
    "an order by the source's position": (
        CURRENT + "current: {key: [k], sequence_by: [source_position]}\n",
        7,
        "current",
        "a text that no engine orders as the source does",
    ),
    "a declared order that may drop": (
        CURRENT + "current: {key: [k], sequence_by: [timestamp], keep_deleted: false}\n",
        7,
        "current",
        "keep_deleted: false needs the order of offsets",
    ),
    "an order by one column twice": (
        CURRENT + "current: {key: [k], sequence_by: [a, a]}\n",
        7,
        "current.sequence_by",
        "each column once",
    ),
    "nothing to decode": (
        GOOD + "decode: {}\n",
        6,
        "decode",
        "value and key both have format none",
    ),
    "a typed table at no address": (
        DECODED.replace("/data/lake/orders_decoded", "''"),
        9,
        "decode.table.uri",
        "needs an absolute path",
    ),
    "a typed table where quarantined rows go by default": (
        BESIDE + "  table: {uri: /data/lake/orders_quarantine}\n",
        7,
        "decode",
        "neither decode.table.uri nor decode.quarantine.uri may lie inside the other",
    ),
    "quarantined rows where typed ones go by default": (
        BESIDE + "  quarantine: {uri: /data/lake/orders_decoded/}\n",
        7,
        "decode",
        "neither decode.table.uri nor decode.quarantine.uri may lie inside the other",
    ),
    "a ledger where typed rows go by default": (
        BESIDE + "ledger_uri: /data/lake/orders_decoded\n",
        7,
        "decode",
        "neither ledger_uri nor decode.table.uri may lie inside the other",
    ),
    "a ledger where quarantined rows go by default": (
        BESIDE + "ledger_uri: /data/lake/orders_quarantine/ledger\n",
        7,
        "decode",
        "neither ledger_uri nor decode.quarantine.uri may lie inside the other",
    ),
    "a raw table that has nothing beside it": (
        BESIDE.replace("/data/lake/orders", "/") + "ledger: airflow\n",
        7,
        "decode",
        "neither table.uri nor decode.table.uri may lie inside the other",
    ),
    "a quarantine's age without a quarantine": (
        GOOD + "maintenance: {quarantine_days: 90}\n",
        6,
        "maintenance",
        "quarantine_days: only with decode",
    ),
    "no days": (
        DECODED + "maintenance: {quarantine_days: 0}\n",
        11,
        "maintenance.quarantine_days",
        "greater than or equal to 1",
    ),
    "a field twice": (
        LISTED % "[at, {field: at, as: then}]",
        8,
        "decode.value.fields",
        "each field once; at is named twice",
    ),
    "a column twice": (
        LISTED % "[{field: a, as: x}, {field: b, as: X}]",
        8,
        "decode.value.fields",
        "each column once; x is named twice",
    ),
    "no fields": (LISTED % "[]", 8, "decode.value.fields", "at least 1 item"),
    "a path of nothing": (LISTED % "[a..b]", 8, "decode.value.fields.0", "allowed: ^"),
    "an unknown key of a field": (
        LISTED % "[at, {field: a, name: b}]",
        8,
        "decode.value.fields.1.name",
        "unknown key; allowed: field, as",
    ),
    "a field as an own column": (
        LISTED % "[{field: a, as: Topic}]",
        8,
        "decode.value.fields.0.as",
        "the table's own columns are called topic_id, ",
    ),
    "fields of nothing": (
        DECODED + "  key: {format: none, fields: [id]}\n",
        11,
        "decode.key",
        "format none takes no fields",
    ),
    "a column of key and value": (
        LISTED % "[{field: a, as: x}]"
        + "  key: {format: avro, subject: s, fields: [{field: b, as: x}]}\n",
        7,
        "decode",
        "value.fields and key.fields both have a column x",
    ),
    "no such own column": (
        OWN % "[topic, offset]",
        9,
        "decode.table.own_columns.1",
        "allowed: 'topic', 'timestamp', 'is_tombstone', 'schema_id', 'headers', 'op',",
    ),
    "an envelope's column without one": (
        OWN % "[is_tombstone, op]",
        7,
        "decode",
        "table.own_columns names op, which needs value.envelope: debezium",
    ),
    "an own column twice": (
        OWN % "[is_tombstone, topic, topic]",
        9,
        "decode.table.own_columns",
        "each column once",
    ),
    "tombstones that nobody can tell": (
        OWN % "[topic]",
        7,
        "decode",
        "table.own_columns lacks is_tombstone, which tombstones: keep needs",
    ),
    "a partition column that is not there": (
        OWN % "[is_tombstone], partition_by: [topic]",
        7,
        "decode",
        "table.own_columns lacks topic, which table.partition_by names",
    ),
    "a key twice": (GOOD + "stream: again\n", 6, "stream", "once"),
    "a key twice in a list": (
        DECODED + "  expect:\n  - name: a\n    sql: x\n    sql: y\n",
        14,
        "decode.expect.0.sql",
        "once",
    ),
    "a number of base 8": (GOOD + "patience_seconds: 010\n", 6, "patience_seconds", "without a 0"),
    "a number of base 60": (GOOD + "patience_seconds: 1:30\n", 6, "patience_seconds", "without :"),
    "a key of base 8": (GOOD + "limits: {010: 1}\n", 6, "limits.010", "without a 0"),
    "text for a number": (GOOD + "patience_seconds: '60'\n", 6, "patience_seconds", "valid number"),
    "yes for a number": (GOOD + "patience_seconds: yes\n", 6, "patience_seconds", "valid number"),
    "yes for a share": (
        DECODED.replace("orders_quarantine}", "orders_quarantine, max_share: yes}"),
        10,
        "decode.quarantine.max_share",
        "valid number",
    ),
    "a number for a time": (
        GOOD + "start: {timestamp: 1577836800}\n",
        6,
        "start.timestamp",
        "a time with its offset from UTC",
    ),
    "a number for a time, as text": (
        GOOD + "start: {timestamp: '1577836800'}\n",
        6,
        "start.timestamp",
        "a time with its offset from UTC",
    ),
    "a number for a day": (
        GOOD + "airflow: {start_date: 86400}\n",
        6,
        "airflow.start_date",
        "a day",
    ),
    "yes for a partition": (
        GOOD + "start: {offsets: {orders: {yes: 5}}}\n",
        6,
        "start.offsets.orders.1",
        "in digits",
    ),
    "a partition with a 0 before it": (
        GOOD + "start: {offsets: {orders: {3: 1, '03': 2}}}\n",
        6,
        "start.offsets.orders.03",
        "in digits",
    ),
    "text for an offset": (
        GOOD + "start: {offsets: {orders: {3: '5'}}}\n",
        6,
        "start.offsets.orders.3",
        "valid integer",
    ),
    "a key that is a number": (GOOD + "1: 2\n", 6, "1", "unknown key; allowed: stream"),
    "a blank in an address": (
        GOOD.replace("/lake/orders", "/lake/or ders"),
        5,
        "table.uri",
        "an address without ' '; it has no blank",
    ),
    "nothing": ("# orders\n", 1, "(file)", "a mapping with stream, kafka"),
    "no YAML": ("stream: [orders\n", 2, "(file)", ""),
    "no mapping": ("- orders\n", 1, "(file)", "mapping"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_where_it_is_broken(name):
    """One sentence a person can act on, and the same as data."""
    text, line, key, allowed = BROKEN[name]
    with pytest.raises(StreamFileError) as refused:
        parse_stream(text, "orders.yaml")
    problem = next(p for p in refused.value.problems if p["key"] == key)
    assert (problem["file"], problem["line"]) == ("orders.yaml", line)
    assert allowed in problem["allowed"]
    said = "unknown key" if problem["allowed"].startswith("unknown key") else "got "
    assert f"orders.yaml:{line}: {key}: {said}" in refused.value.message


@pytest.mark.parametrize(
    "ledger",
    ["/data//lake/orders", "/data/./lake/orders/", "file:////data/lake", "/data/lake/orders/./x"],
)
def test_another_way_to_write_an_address_leads_to_the_same_folder(ledger):
    """Table and ledger would lie inside each other."""
    with pytest.raises(StreamFileError, match="neither ledger nor table may lie inside the other"):
        parse_stream(f"{GOOD}ledger_uri: {ledger}\n", "orders.yaml")
    assert parse_stream(f"{GOOD}ledger_uri: s3a://data/lake/orders\n", "orders.yaml")


HOSTILE = {
    "a number of 300 kB": "limits: {max_records_per_run: 0x" + "f" * 300_000 + "}\n",
    "a number in base 60": "limits: {max_records_per_run: 1" + ":1" * 400_000 + "}\n",
    "a fraction in base 60": "patience_seconds: 1" + ":1" * 400 + ".5\n",
    "a number that Python does not print": "limits: {max_records_per_run: 0x" + "f" * 5_000 + "}\n",
    "80,000 keys": "".join(f"k{n}: 1\n" for n in range(80_000)),
    "minutes of a schedule": "schedule: '" + ",".join(["*/1"] * 200_000) + " * * * *'\n",
    "a schedule at random": "schedule: 'R 3 * * *'\n",
    "a date that never comes": "schedule: '0 0 31 2 *'\n",
    "a time before all others": "start: {timestamp: 0001-01-01T00:00:00+14:00}\n",
    "a time that Kafka takes for the end": "start: {timestamp: '1969-12-31T23:59:59.999Z'}\n",
    "a retry in an aeon": "airflow: {retry_delay_seconds: 99999999999999}\n",
    "a pattern too deep": "kafka: {topic_pattern: '" + "(" * 4_000 + ")" * 4_000 + "'}\n",
    "a pattern too often": "kafka: {topic_pattern: 'a{99999999999999999999}'}\n",
    "half of 120,000 topics": f"kafka: {{topics: [{','.join(map(str, range(120_000)))}]}}\n",
    "topics twice": "kafka: {topics: [" + "a, b, " * 15_000 + "]}\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_costs_others_their_time_or_their_dag(name):
    """Refused like any other, within seconds: one process reads all files, and looks for names."""
    text = GOOD + HOSTILE[name]
    if "kafka" in HOSTILE[name]:
        text = HOSTILE[name] + "stream: orders\ntable: {uri: /data/lake/orders}\n"
    began = time.process_time()
    with pytest.raises(StreamFileError) as refused:
        parse_stream(text, "orders.yaml")
    assert time.process_time() - began < 3
    assert len(str(refused.value)) < 2_000


def numbers_of(model):
    """Key and bounds of each number of a section and of those below."""
    for name, field in model.model_fields.items():
        kinds = list(types_in(field.annotation))
        parts = (getattr(part, "__metadata__", ()) for part in get_args(field.annotation))
        within = [m for known in parts for info in known for m in getattr(info, "metadata", ())]
        bounds = {type(m).__name__ for m in (*field.metadata, *within)}
        if {int, float} & set(kinds) and dict not in kinds and "dict" not in str(field.annotation):
            yield f"{model.__name__}.{name}", bounds
        for kind in kinds:
            if issubclass(kind, BaseModel):
                yield from numbers_of(kind)


def test_every_number_of_a_stream_file_has_a_largest_value():
    """One without fails later: in a time, in a message, in Java."""
    found = dict(numbers_of(Stream))
    assert len(found) > 12
    assert not [key for key, bounds in found.items() if "Le" not in bounds]


def test_all_problems_of_a_file_are_shown_at_once():
    """Nobody wants to mend a file one error at a time."""
    text = GOOD + "shedule: x\ntimezone: Mars/Olympus\nschedule: hourly\n"
    with pytest.raises(StreamFileError) as refused:
        parse_stream(text, "f.yaml")
    assert [p["line"] for p in refused.value.problems] == [6, 7, 8]


def test_defaults_are_those_of_the_reference():
    """A file of five lines is a stream."""
    stream = parse_stream(GOOD, "f.yaml")
    assert stream.kafka.connection == "kafka_default"
    assert stream.kafka.isolation_level == "read_committed"
    assert stream.table.partition_by == ["topic_id"]
    assert (stream.start, stream.gaps, stream.on_incident) == ("earliest", "explain", "halt")
    assert str(stream.ledger_location) == "/data/lake/orders.ledger"
    assert stream.limits.max_records_per_run == 5_000_000
    assert set(stream.on_reset.model_dump().values()) == {"fail"}


def test_a_stream_with_typed_tables_has_defaults_too():
    """The least that such a file says."""
    stream = parse_stream(DECODED, "f.yaml")
    assert stream.registry.connection == "registry_default"
    assert (stream.decode.quarantine.max_share, stream.decode.tombstones) == (0.05, "keep")
    assert set(stream.decode.on_schema.model_dump().values()) == {
        "add_column",
        "halt",
        "quarantine",
        100,
    }
    assert (stream.decode.key.format, stream.decode.event_time) == ("none", None)
    assert stream.decode.value.listed == ()
    assert stream.decode.table.own_columns == ["topic", "timestamp", "is_tombstone", "schema_id"]


def test_null_is_a_word_of_yaml_and_of_ours():
    text = DECODED + "  on_value: {a: null, b: 'null', c: quarantine, d: ~}\n"
    assert parse_stream(text, "f.yaml").decode.lenient == ("a", "b", "d")
    assert parse_stream(DECODED, "f.yaml").decode.lenient == ()


def forms_of(schema, found):
    """What may stand at a place, with what it refers to."""
    for form in (found, *found.get("anyOf", ()), *found.get("oneOf", ())):
        yield schema["$defs"][form["$ref"].rpartition("/")[2]] if "$ref" in form else form


def all_keys(schema, found, at=()):
    """Every key of a file, with the keys that it is below."""
    for form in forms_of(schema, found):
        for name, value in form.get("properties", {}).items():
            yield (*at, name)
            yield from all_keys(schema, value, (*at, name))
        if "items" in form:
            yield from all_keys(schema, form["items"], (*at, 0))


SCHEMA = json.loads(json_schema_of(Stream))


def without_value(key):
    """A stream file that has nothing behind one key, and the problems of that key."""
    given = yaml.safe_load(CURRENT)
    section = given
    for name, below in pairwise(key):
        empty = [{}] if below == 0 else {}
        if isinstance(name, int):
            section = section[name]
        else:
            section[name] = section[name] if isinstance(section.get(name), dict) else empty
            section = section[name]
    section[key[-1]] = None
    try:
        parse_stream(yaml.safe_dump(given), "f.yaml")
    except StreamFileError as refused:
        found = [p for p in refused.problems if p["key"] == ".".join(map(str, key))]
        return given, found
    return given, []


def is_section(key):
    form = SCHEMA
    for name in key:
        form = next(f for f in forms_of(SCHEMA, form) if "items" in f or "properties" in f)
        form = form["items"] if name == 0 else form["properties"][name]
    return "$ref" in form


EVERY_KEY = tuple(dict.fromkeys(all_keys(SCHEMA, SCHEMA)))


@pytest.mark.parametrize("key", EVERY_KEY, ids=str)
def test_null_means_one_thing_to_files_and_to_editors(key):
    """`current:` alone is no word about a current table: the rest was forgotten.

    The JSON Schema, by which editors check, says the same of each key.
    """
    given, problems = without_value(key)
    errors = deepest(Draft202012Validator(SCHEMA).iter_errors(given))
    assert bool(problems) == any((*error.absolute_path,) == key for error in errors)
    assert {p["value"] for p in problems} <= {"nothing"}
    assert all("None" not in str(p) for p in problems)
    assert problems or not is_section(key)


def deepest(errors):
    """The errors that say more than that no form of several fits."""
    for error in errors:
        yield error
        yield from deepest(error.context or ())


def test_a_section_without_keys_is_told_how_to_take_its_defaults():
    with pytest.raises(StreamFileError) as refused:
        parse_stream(CURRENT + "registry:\ncatalog:\n", "f.yaml")
    assert refused.value.message.splitlines() == [
        "f.yaml:7: registry: got nothing; allowed: keys below it: connection; {} for their"
        " defaults; or leave the key out",
        "f.yaml:8: catalog: got nothing; allowed: keys below it: connection, name; or leave the"
        " key out",
    ]


def test_no_schedule_may_be_said():
    """As to Airflow; and of each topic of a fleet, to take the template's away."""
    assert parse_stream(CURRENT + "schedule: null\n", "f.yaml").schedule is None


@pytest.mark.parametrize(
    ("raw", "beside"),
    [
        ("/data/lake/orders", "/data/lake/orders"),
        ("/data/lake/orders/", "/data/lake/orders"),
        ("file:///data/lake/orders/", "file:///data/lake/orders"),
        ("s3a://lake/orders", "s3a://lake/orders"),
        ("s3a://lake/orders/", "s3a://lake/orders"),
    ],
)
def test_typed_and_quarantined_rows_go_beside_the_raw_ones(raw, beside):
    """A file that names the addresses is the same stream as one that does not."""
    text = BESIDE.replace("/data/lake/orders", raw)
    stream = parse_stream(text, "f.yaml")
    named = f"  table: {{uri: {beside}_decoded}}\n  quarantine: {{uri: {beside}_quarantine}}\n"
    assert stream == parse_stream(text + named, "f.yaml")
    assert tables_of(stream) == {
        "raw": raw,
        "decoded": f"{beside}_decoded",
        "quarantine": f"{beside}_quarantine",
    }


def test_one_address_of_two_may_be_named():
    """The other one has its default, and so have the other keys of a section."""
    stream = parse_stream(BESIDE + "  table: {uri: /data/typed}\n", "f.yaml")
    assert tables_of(stream)["decoded"] == "/data/typed"
    assert tables_of(stream)["quarantine"] == "/data/lake/orders_quarantine"
    stream = parse_stream(BESIDE + "  quarantine: {max_share: 1}\n", "f.yaml")
    assert stream.decode.quarantine.uri == "/data/lake/orders_quarantine"
    assert stream.decode.quarantine.max_share == 1


def test_tables_beside_one_in_a_store_are_in_the_store():
    """The stream's connection is for them, too."""
    text = BESIDE.replace("/data/lake", "s3a://lake") + "ledger: airflow\n"
    beside = ("s3a://lake/orders_decoded", "s3a://lake/orders_quarantine")
    assert parse_stream(text, "f.yaml").store_addresses == ("s3a://lake/orders", *beside)


def test_only_the_keys_may_be_decoded():
    """The values stay bytes."""
    stream = parse_stream(GOOD + "decode: {key: {format: json}}\n", "f.yaml")
    assert (stream.decode.key.format, stream.decode.value.format) == ("json", "none")


def test_fields_are_listed_by_path_and_by_name():
    """A text, or a path with the column's name."""
    stream = parse_stream(LISTED % "[at, {field: customer.id, as: customer}]", "f.yaml")
    listed = [(f.field, f.column) for f in stream.decode.value.listed]
    assert listed == [("at", None), ("customer.id", "customer")]


def test_a_ledger_in_airflow_s_database_is_named_by_connection_and_stream():
    """Nobody's password is in it."""
    stream = parse_stream(GOOD + "ledger: airflow\n", "f.yaml")
    assert str(stream.ledger_location) == "tideline_ledger: orders"
    stream = parse_stream(GOOD + "ledger: airflow\nledger_connection: other\n", "f.yaml")
    assert str(stream.ledger_location) == "other: orders"


def test_numbers_may_carry_underscores():
    """As the reference writes them."""
    text = GOOD + "limits: {max_records_per_run: 5_000}\n"
    assert parse_stream(text, "f.yaml").limits.max_records_per_run == 5000


def test_an_address_may_have_what_no_text_calls_refused():
    uri = "/data/a;b&c$d(e)~!<f>|^g,é"
    assert parse_stream(GOOD.replace("/data/lake/orders", f"'{uri}'"), "f.yaml").table.uri == uri


@pytest.mark.parametrize("text", ["", "# nothing\n", "null\n"])
def test_a_file_without_anything_is_called_so(text):
    with pytest.raises(StreamFileError) as refused:
        parse_stream(text, "f.yaml")
    told = "f.yaml:1: (file): got nothing; allowed: a mapping with stream, kafka, ..."
    assert refused.value.message == told


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    """Not a traceback."""
    with pytest.raises(StreamFileError, match=r"nowhere\.yaml:1"):
        read_stream(tmp_path / "nowhere.yaml")


def test_one_connection_is_for_every_address_in_a_store():
    """A ledger in the store beside a table on a disk is one of them."""
    text = GOOD + "  connection: lake\nledger_uri: s3a://lake/orders.ledger\n"
    stream = parse_stream(text, "f.yaml")
    assert stream.store_addresses == ("s3a://lake/orders.ledger",)
    text = GOOD.replace("/data/lake", "s3a://lake") + "  connection: lake\n"
    both = ("s3a://lake/orders", "s3a://lake/orders.ledger")
    assert parse_stream(text, "f.yaml").store_addresses == both


def test_a_file_of_a_megabyte_is_refused_unread(tmp_path):
    """Airflow parses again and again; a large file takes the others' time."""
    path = tmp_path / "large.yaml"
    path.write_text(GOOD + "#" * 1_000_000)
    with pytest.raises(StreamFileError, match="more than 1,000,000 bytes"):
        read_stream(path)


def test_of_many_problems_twenty_are_shown(tmp_path):
    """The message stands in Airflow's notes and logs; `problems` has them all."""
    text = GOOD + "".join(f"key{number}: 1\n" for number in range(5000))
    with pytest.raises(StreamFileError) as refused:
        parse_stream(text + f"{'k' * 900}: 1\n", "x.yaml")
    assert refused.value.message.endswith("and 4981 more")
    assert len(refused.value.message) < 20_000
    assert len(refused.value.problems) == 5001


@pytest.mark.parametrize("word", ["fail", "approve"])
def test_one_word_is_the_policy_of_all_classes(word):
    """No class is left out, whatever classes there are."""
    policies = parse_stream(GOOD + f"on_reset: {word}\n", "orders.yaml").on_reset.model_dump()
    assert policies == dict.fromkeys(POLICIES, word)


def test_levels_that_nobody_reads_are_not_parsed(monkeypatch):
    """LibYAML takes a minute for 100,000 of them, and Airflow would take out all Dags."""
    events, parse_events = [], yaml.parse

    def counted(text, **options):
        for event in parse_events(text, **options):
            events.append(event)
            yield event

    monkeypatch.setattr(yaml, "parse", counted)
    assert [*words_at_top(b"stream: orders\nx: " + b"[" * 5000)] == [("stream", "orders")]
    assert len(events) < 50
