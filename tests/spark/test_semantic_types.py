"""Logical types of Debezium and Connect, and composite keys, against whole numbers of Python's."""

import json
import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from tests.worlds.connect_json import base64_of, field, of, record, schema
from tests.worlds.current_streams import KEY, Changing
from tests.worlds.raw_tables import avro
from tests.worlds.semantic_values import CASES, DAYS, KINDS, LONG, ONLY_JSON, Bad, decimal_kind
from tests.worlds.semantic_values import kind as kind_of
from tideline.folding.views import view_of
from tideline.model.request import RunRequest
from tideline.wiring import open_run

VALUE = schema(*(field(name, kind.json) for name, kind in KINDS.items()), name="orders.Value")
IN_AVRO = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": n, "type": ["null", kind.avro], "default": None} for n, kind in KINDS.items()
    ],
}


def as_json(value):
    """A value as Connect's converter writes it."""
    if isinstance(value, bytes):
        return base64_of(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, dict):
        return {k: as_json(v) for k, v in value.items()}
    return [*map(as_json, value)] if isinstance(value, list) else value


def plain(value):
    """A table's value, with times as numbers."""
    if isinstance(value, datetime):
        zone, epoch = ("ntz", None) if value.tzinfo is None else ("utc", UTC)
        since = value - datetime(1970, 1, 1, tzinfo=epoch)
        return (zone, since // timedelta(microseconds=1))
    if isinstance(value, date):
        return ("date", (value - date(1970, 1, 1)).days)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def rows_of(orders, table):
    """A table's rows, with times as numbers."""
    found = DeltaTable(orders.tables[table]).to_pyarrow_table().to_pylist()
    return [plain(row) for row in found]


def stream_of(harness, spark, value, **more):
    """A stream of rows, without an envelope, whose keys are Connect's JSON."""
    orders = Changing(harness, spark)
    key = {"format": "json", "framing": "connect"}
    orders.decode = {"value": value, "key": key, "quarantine": {"max_share": 1.0}}
    orders.more = more
    return orders


def send(harness, pairs):
    """Keys and values, in one partition."""
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
    for key, value in pairs:
        producer.send(harness.topic(), key=key, value=value, partition=0)
    producer.close()


def in_json(harness, spark, request):
    """The stream, its cases, and what writes a record."""
    orders = stream_of(harness, spark, {"format": "json", "framing": "connect"})
    cases = [(name, value, told(wanted, "json")) for name, value, wanted in CASES + ONLY_JSON]
    return orders, cases, lambda row: record(VALUE, as_json(row))


def in_avro(harness, spark, request):
    """The same in Avro, with a real registry: a float has 32 bits there."""
    registry, subject = request.getfixturevalue("registry"), f"{harness.name}-value"
    settings = json.dumps(registry.connection)
    request.getfixturevalue("monkeypatch").setenv("AIRFLOW_CONN_REGISTRY_OF_TESTS", settings)
    number = registry.register(subject, json.dumps(IN_AVRO))
    value = {"format": "avro", "subject": subject}
    orders = stream_of(harness, spark, value, registry={"connection": "registry_of_tests"})
    return orders, [*map(of_avro, CASES)], lambda row: avro(IN_AVRO, row, number)


def of_avro(case):
    name, value, wanted = case
    if name == "float":
        wanted = struct.unpack("<f", struct.pack("<f", value))[0]
    return name, value, told(wanted, "avro")


def told(wanted, encoding):
    """A value, or the class that one encoding has for what it cannot be."""
    if not isinstance(wanted, Bad):
        return wanted
    return Bad(wanted.avro or wanted.json) if encoding == "avro" else Bad(wanted.json)


@pytest.mark.parametrize("encoding", [pytest.param(in_json, marks=pytest.mark.slow), in_avro])
def test_each_value_is_what_it_means_or_its_record_is_set_aside(harness, spark, request, encoding):
    """Of all types in one batch: none is another value, and none breaks another record."""
    orders, cases, encoded = encoding(harness, spark, request)
    nulls = dict.fromkeys(KINDS)
    cases = [*cases, ("note", None, None)]
    keys = [record(KEY, {"id": n}) for n in range(len(cases))]
    rows = [encoded(nulls | {name: value}) for name, value, _ in cases]
    send(harness, zip(keys, rows, strict=True))
    orders.run()
    typed, bad = rows_of(orders, "decoded"), rows_of(orders, "quarantine")
    assert sorted(row["offset"] for row in typed + bad) == [*range(len(cases))]
    found = {row["offset"]: {name: row[name] for name in KINDS} for row in typed}
    found |= {row["offset"]: Bad(row["error_class"]) for row in bad}
    others = []
    for n, (name, value, wanted) in enumerate(cases):
        whole = wanted if isinstance(wanted, Bad) else nulls | {name: wanted}
        if repr(whole) != repr(found[n]):  # which tells -0.0, NaN, and a decimal's zeros
            others.append((name, value, wanted, found[n]))
    assert others == []
    assert_current_is(orders, typed)
    assert (len(cases), len(bad)) == COUNTS[encoding]


COUNTS = {in_json: (337, 79), in_avro: (320, 65)}
"""Of cases, and of those in quarantine: none is lost from the suite unnoticed."""


def assert_current_is(orders, typed):
    """Each key came once, so both tables have the same rows."""
    current = rows_of(orders, "current")
    names = sorted(current[0].keys() & typed[0].keys())
    assert {"key_id", "offset", *KINDS} <= {*names}
    one, other = (
        sorted(repr([row[n] for n in ["key_id", *names]]) for row in table)
        for table in (current, typed)
    )
    assert one == other
    assert not any(row["is_deleted"] for row in current)


PARTS = {
    "text": kind_of("string"),
    "number": kind_of("int64"),
    "day": kind_of("int32", "io.debezium.time.Date"),
    "at": kind_of("int64", "io.debezium.time.MicroTimestamp"),
    "total": decimal_kind(2),
    "raw": kind_of("bytes"),
    "paid": kind_of("boolean"),
    "small": kind_of("int32"),
}
ONE = {"text": "a", "number": 1, "day": 0, "at": 0, "total": 100, "raw": b"k", "paid": True}
ONE |= {"small": 1}
MICROS = 86_400_000_000
UNLIKE = {
    "text": ("A", "é", "e\u0301", "𝄞", "\0", "a\0", "", " ", "a ", "a  ", '"', "\\", "null", None),
    "number": (0, -1, LONG - 1, -LONG, 2**53, 2**53 + 1, None),
    "day": (-1, *DAYS, None),
    "at": (-1, -999_999, -1_000_000, DAYS[0] * MICROS, (DAYS[1] + 1) * MICROS - 1, 1, None),
    "total": (0, 1, -1, 10, 10**38 - 1, 1 - 10**38, None),
    "raw": (b"", b"\0", b"\0\0", b"K", b"\xff", b"k\0", None),
    "paid": (False, None),
    "small": (0, -1, 2**31 - 1, -(2**31), None),
}
KEYS = [ONE, *(ONE | {name: value} for name, values in UNLIKE.items() for value in values)]
"""Each is unlike the first one in one part."""
COMPOSITE = schema(*(field(name, kind.json) for name, kind in PARTS.items()), name="orders.Key")
NUMBER = schema(field("n", of("int64")), name="orders.Number")


def changes(numbers, gone, fold):
    """Keys with a number of their own and of the fold; then those that go."""
    for n in numbers:
        yield _key(n), record(NUMBER, {"n": 100 * fold + n})
    for n in gone:
        yield _key(n), None


def _key(number):
    given = KEYS[number] | {"total": _digits(KEYS[number]["total"])}
    return record(COMPOSITE, as_json(given))


def _digits(number):
    return None if number is None else number.to_bytes(17, signed=True)


def in_table(key):
    """A key's parts as the table has them."""
    total, day, at = key["total"], key["day"], key["at"]
    whole = None if total is None else (int(total < 0), tuple(map(int, str(abs(total)))), -2)
    return key | {
        "total": None if whole is None else Decimal(whole),
        "day": None if day is None else ("date", day),
        "at": None if at is None else ("ntz", at),
    }


def test_composite_keys_that_are_nearly_alike_are_rows_of_their_own(harness, spark):
    """Of eight types, through three folds with deletes: each key stands once, as it was last."""
    assert len({repr(key) for key in KEYS}) == len(KEYS) == 54
    orders = stream_of(harness, spark, {"format": "json", "framing": "connect"})
    send(harness, changes(range(54), (), 1))
    orders.run("one")
    send(harness, changes(range(0, 54, 3), range(0, 54, 4), 2))
    orders.run("two")
    orders.current["every"] = 1.0
    send(harness, changes(range(0, 54, 8), range(1, 54, 13), 3))
    assert orders.run("three").folded is None
    shown = view_now(orders)
    orders.fold()
    wanted = {n: 100 + n for n in range(54)}
    wanted |= {n: 200 + n for n in range(0, 54, 3)} | dict.fromkeys(range(0, 54, 4))
    wanted |= {n: 300 + n for n in range(0, 54, 8)} | dict.fromkeys(range(1, 54, 13))
    rows = rows_of(orders, "current")
    found = {repr({p: row[f"key_{p}"] for p in PARTS}): row for row in rows}
    assert len(rows) == len(found) == 54
    for n, key in enumerate(KEYS):
        row = found[repr(in_table(key))]
        assert (row["n"], row["is_deleted"]) == (wanted[n], wanted[n] is None), key
    live = sorted(n for n in wanted.values() if n is not None)
    assert sorted(shown) == live
    assert 0 < len(live) < 54


def view_now(orders):
    """What the view over changes that are not folded yet shows."""
    with open_run(orders.stream, "view", RunRequest()) as run:
        sql = view_of(run, "duckdb", ("current_rows", "typed_rows"), is_history=False)
    engine = duckdb.connect()
    for name, table in (("current_rows", "current"), ("typed_rows", "decoded")):
        engine.register(name, DeltaTable(orders.tables[table]).to_pyarrow_dataset())
    return [n for (n,) in engine.execute(f"SELECT n FROM ({sql})").fetchall()]
