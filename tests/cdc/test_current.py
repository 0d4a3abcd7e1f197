"""The database as the judge of the current table: every column of every row, after random changes.

`TIDELINE_TEST_MINUTES` says for how long rows change, and `TIDELINE_TEST_SEED` from which seed.
"""

import json
import os
import random
import signal
import tempfile
import time
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from kafka import KafkaConsumer, TopicPartition

from devstack.debezium import Debezium, avro_converters
from devstack.process import wait_until
from tests.faults.killable import Killable
from tests.worlds.changing_tables import Changes
from tests.worlds.postgres import Postgres
from tests.worlds.streams import is_clean
from tideline.errors import Transient
from tideline.failpoints import DECODE_PLACES, FOLD_PLACES, PLACES
from tideline.stream.stream import tables_of
from tideline.wiring import open_ledger

MINUTES = float(os.environ.get("TIDELINE_TEST_MINUTES", "0.7"))
SEED = int(os.environ.get("TIDELINE_TEST_SEED", "1"))
LAST = -1
"""Key of the row that comes last, and says that Debezium has told everything."""


@pytest.fixture
def source():
    """A PostgreSQL that tells its changes."""
    found = Postgres(wal_level="logical").start()
    yield found
    found.remove()


@pytest.mark.parametrize("format", ["json", "avro"])
def test_the_table_is_the_databases(source, harness, registry, spark, monkeypatch, format):
    """Runs land, decode, fold and are killed; Debezium is killed; columns come."""
    rng = random.Random(SEED)
    database = source.create_database("shop")
    changes = Changes(source, "shop", SEED)
    changes.happen(60)
    prefix = f"{harness.name}-{format}"
    topic = f"{prefix}.public.orders"
    connect = Debezium(
        harness.folder / "connect",
        harness.broker.bootstrap_servers,
        database,
        prefix,
        settings={"schema.name.adjustment.mode": format.replace("json", "none")},
        converters=avro_converters(registry) if format == "avro" else {},
    ).start()
    part = {"format": "json", "framing": "connect"}
    value = key = part
    if format == "avro":
        monkeypatch.setenv("AIRFLOW_CONN_REGISTRY_OF_CDC", json.dumps(registry.connection))
        value, key = ({"format": "avro", "subject": f"{topic}-{p}"} for p in ("value", "key"))
    stream = harness.stream(
        kafka={"connection": harness.connection, "topics": [topic]},
        decode={"value": {**value, "envelope": "debezium"}, "key": key},
        current={"table": {"buckets": 4}},
        **({"registry": {"connection": "registry_of_cdc"}} if format == "avro" else {}),
    )
    wait_until(lambda: ends(harness, topic) is not None, "the snapshot is not there", 60)
    until, killed, number = time.monotonic() + 60 * MINUTES, 0, 0
    try:
        while time.monotonic() < until:
            number += 1
            changes.happen(rng.randrange(5, 40))
            if rng.random() < 0.2:
                connect.server.signal(signal.SIGKILL)
                connect.stop()
                changes.happen(5)
                connect.start()
            if rng.random() < 0.4:
                killed += dies(harness, spark, rng.choice(POINTS), f"run {number}")
            repeated(harness, stream, spark, f"run {number}")
        changes.execute(f"INSERT INTO orders (id) VALUES ({LAST})")
        wait_until(lambda: told(harness, topic), "Debezium has not told everything", 60)
    finally:
        connect.stop()
    repeated(harness, stream, spark, "the last run")
    found = {row["key_id"]: row for row in current(stream)}
    wanted = changes.rows()
    print(f"{changes.statements} statements, {number} runs, {killed} killed, {len(wanted)} rows")
    assert {k for k, row in found.items() if not row["is_deleted"]} == {*wanted}
    for k, row in wanted.items():
        assert {n: found[k][n] for n in row} == {n: as_typed(n, v) for n, v in row.items()}, k
    state = open_ledger(stream).read()
    assert state.folding.coverage == state.decoding.coverage == state.head.coverage
    assert is_clean(harness, stream)


POINTS = [*PLACES[2:-1], *DECODE_PLACES, *FOLD_PLACES[1:]]


def as_typed(name, value):
    """A value of the database as the typed table has it."""
    if name == "free" and value is not None:  # Debezium drops zeros behind the last digit
        return format(Decimal(value).normalize(), "f")
    if name == "ref" and value is not None:
        return str(value)
    if name == "doc" and value is not None:
        return json.dumps(value)
    return bytes(value) if isinstance(value, memoryview) else value


def dies(harness, spark, place, run_id):
    """A run that is killed at a place, if it gets there; whether it did."""
    folder = Path(tempfile.mkdtemp(prefix="attempt-", dir=harness.folder))
    arguments = ("run", harness.folder / "orders.yaml", "--run-id", run_id, "--json")
    with Killable(spark, folder, *arguments, point=f"{place}:kill") as dying:
        status = dying.ended()
        assert status in (0, 4, -signal.SIGKILL), dying.said
        return status == -signal.SIGKILL


def repeated(harness, stream, spark, run_id):
    """A run, again as long as it may pass."""
    for _ in range(6):
        try:
            return harness.run(stream, run_id, spark)
        except Transient as error:
            last = error
    raise AssertionError(f"stuck: {last}")


def current(stream):
    """The current table's rows."""
    return DeltaTable(tables_of(stream)["current"]).to_pyarrow_table().to_pylist()


def ends(harness, topic):
    """The end of a topic of one partition; None where there is none yet."""
    consumer = KafkaConsumer(bootstrap_servers=harness.broker.bootstrap_servers)
    try:
        place = TopicPartition(topic, 0)
        return (
            (consumer.end_offsets([place])[place] or None) if topic in consumer.topics() else None
        )
    finally:
        consumer.close()


def told(harness, topic):
    """Whether the last row's event is the topic's last."""
    consumer = KafkaConsumer(bootstrap_servers=harness.broker.bootstrap_servers)
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, consumer.end_offsets([place])[place] - 1)
        records = consumer.poll(timeout_ms=5000).get(place, ())
        key = records[-1].key if records else b""
        return b'"id":-1' in key or key.endswith(b"\x01")
    finally:
        consumer.close()
