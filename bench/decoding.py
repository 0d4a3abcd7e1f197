"""What typed tables cost: decoding against landing raw, and both together against two peers."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from bench.applications import typed_available_now
from bench.landing import LOCAL_SPARK, land, spark_submit, write_archive
from bench.pairs import estimate, orders
from bench.python_peer import in_own_process
from bench.tables import Table, judged, milliseconds
from devstack.broker import Broker
from devstack.command_line import finished, tideline
from devstack.harness import StreamHarness
from devstack.process import HOST
from devstack.protobuf_messages import message_class
from devstack.registry import PATH, Registry
from tideline.launch.local_driver import end_drivers

_RECORDS = 1_000_000
_PARTITIONS = 4
_TIMES = 3
_FIELDS = (("id", "long"), ("customer", "string"), ("amount", "double"), ("paid", "boolean"))
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": name, "type": kind} for name, kind in _FIELDS],
}
_JSON_TYPES = {"long": "integer", "string": "string", "double": "number", "boolean": "boolean"}
_JSON = {
    "type": "object",
    "properties": {name: {"type": _JSON_TYPES[kind]} for name, kind in _FIELDS},
}
_PROTOBUF = """syntax = "proto3";
message Order { int64 id = 1; string customer = 2; double amount = 3; bool paid = 4; }
"""
_SCHEMAS = {"avro": json.dumps(_AVRO), "json": json.dumps(_JSON), "protobuf": _PROTOBUF}
_PASSES = {"avro": 1 / 0.5, "json": 1 / 0.45, "protobuf": 1 / 0.3}
_WHOLE = ("avro", "json")
"""Formats that the peers know as well."""
_RUNS = ("first run", "second run")
_PEERS = {
    "AvailableNow, from_avro or from_json": 1.2,
    "confluent-kafka's deserializer": 3.0,
    "fastavro or orjson by hand": None,
}
"""What the whole has to be against each peer: the peer's time by ours, at least."""


def decoding(folder: Path) -> Table:
    """Seconds of landing and of decoding, for each format; Spark is warm.

    Args:
        folder: Empty.
    """
    table = Table(
        "Typed tables",
        f"{_RECORDS:,} records of four fields. `tideline run` lands them raw, then `tideline"
        " decode` makes typed rows of them; both from the command's start to its end, Spark being"
        f" warm. Medians of {_TIMES} after one that does not count.",
        ("format", "land", "decode", "land / decode", "pass", "verdict"),
    )
    with _topics(folder, _SCHEMAS) as (harness, _):
        for name in _SCHEMAS:
            taken = [_both(harness, name) for _ in range(_TIMES + 1)][1:]
            landed, decoded = (median(seconds) for seconds in zip(*taken, strict=True))
            table.add(
                name,
                milliseconds(landed),
                milliseconds(decoded),
                f"{landed / decoded:.2f}",
                f">= {1 / _PASSES[name]:.2f}",
                judged(decoded / landed, _PASSES[name]),
            )
    return table


def decoding_whole(folder: Path) -> Table:
    """A run that lands and decodes, against the peers that do both, in pairs.

    Args:
        folder: Empty.
    """
    table = Table(
        "Typed tables, land and decode",
        f"{_RECORDS:,} records of four fields into a raw and a typed table, both new, whole"
        " processes from their start to their end. Ours is `tideline run` with `decode:`; its"
        " first run starts Spark, its second finds it warm. AvailableNow is an application for"
        " spark-submit with `foreachBatch`; the Python peers are confluent-kafka, pyarrow and"
        " deltalake, one with confluent-kafka's deserializer, one without, which no aim is set for."
        " The peers write fewer columns, and have neither a quarantine nor a proof."
        f" Medians of {_TIMES} pairs after one that does not count; times of the other by ours.",
        ("format", "other", "ours", "our time", "other's time", "ratio", "pass", "verdict"),
    )
    with _topics(folder, _WHOLE) as (harness, registry):
        for name in _WHOLE:
            taken = _in_pairs(harness, registry, name)
            for peer, passes in _PEERS.items():
                for run in _RUNS:
                    found = estimate(taken[run], taken[peer])
                    times = (milliseconds(median(taken[side])) for side in (run, peer))
                    wanted, verdict = "", ""
                    if passes is not None:
                        wanted, verdict = f">= {passes}", judged(1 / found.ratio, 1 / passes)
                    table.add(name, peer, run, *times, str(found), wanted, verdict)
    return table


@contextmanager
def _topics(folder: Path, names: Iterable[str]) -> Iterator[tuple[StreamHarness, Registry]]:
    """A broker with a topic for each of these formats, and the registry with their schemas."""
    write_archive()
    os.environ.update(LOCAL_SPARK)
    with ExitStack() as running:
        broker = Broker(folder / "kafka", heap_mb=1024).start()
        running.callback(broker.stop)
        registry = Registry(folder / "registry").start()
        running.callback(registry.stop)
        running.callback(end_drivers)
        os.environ["AIRFLOW_CONN_BENCH_REGISTRY"] = json.dumps(registry.connection)
        for name in names:
            schema_id = registry.register(name, _SCHEMAS[name], name.upper())
            _fill(broker.bootstrap_servers, name, _values(name, schema_id))
        yield StreamHarness(broker, folder, "bench", keeps_spark_warm=True), registry


def _both(harness: StreamHarness, name: str) -> tuple[float, float]:
    """Seconds of landing and of decoding into new tables."""
    shutil.rmtree(harness.folder / "lake", ignore_errors=True)
    raw = _file(harness, name, decodes=False)
    landed = _timed(lambda: land(raw))
    typed = _file(harness, name, decodes=True)
    return landed, _timed(lambda: _decode(typed))


def _file(harness: StreamHarness, name: str, *, decodes: bool) -> Path:
    """Write the stream file, with typed tables or without."""
    lake = harness.folder / "lake"
    decode = {
        "value": {"format": name, "subject": name},
        "table": {"uri": str(lake / "typed")},
        "quarantine": {"uri": str(lake / "quarantine")},
    }
    typed = {"registry": {"connection": "bench_registry"}, "decode": decode}
    return harness.stream_file(
        name=name,
        kafka={"connection": harness.connection, "topics": [name]},
        spark={"connection": "bench_spark"},
        **(typed if decodes else {}),
    )


def _in_pairs(harness: StreamHarness, registry: Registry, name: str) -> dict[str, list[float]]:
    """Seconds of our runs and of each peer, by name: ours and the others take turns to begin."""
    ways = _ways(harness, registry, name)
    taken: dict[str, list[float]] = {side: [] for side in ways}
    lake = harness.folder / "lake"
    for order in orders(_TIMES + 1, seed=1):
        for which in order:
            end_drivers()  # so that the first run starts Spark, and no peer has it beside it
            for side in (_RUNS, tuple(_PEERS))[which]:
                shutil.rmtree(lake, ignore_errors=True)
                taken[side].append(_timed(ways[side]))
                _check(name, side, lake / name if side in _RUNS else lake / "raw", lake / "typed")
                print(f"  {name}, {side}: {taken[side][-1]:.2f} s", flush=True)
    return {side: seconds[1:] for side, seconds in taken.items()}


def _ways(harness: StreamHarness, registry: Registry, name: str) -> dict[str, Callable[[], None]]:
    servers, lake = harness.broker.bootstrap_servers, str(harness.folder / "lake")
    file = _file(harness, name, decodes=True)
    columns = ", ".join(f"{field} {kind}" for field, kind in _FIELDS)
    schema = _SCHEMAS[name] if name == "avro" else columns
    counts = [len(range(p, _RECORDS, _PARTITIONS)) for p in range(_PARTITIONS)]
    python = (servers, name, counts, lake, f"http://{HOST}:{registry.port}{PATH}", name)

    def in_python(*, by_hand: bool) -> None:
        in_own_process("typed_peer", "land_and_decode", *python, by_hand)

    peers = (
        lambda: spark_submit(typed_available_now.__file__, servers, name, lake, name, schema),
        lambda: in_python(by_hand=False),
        lambda: in_python(by_hand=True),
    )
    return {**dict.fromkeys(_RUNS, lambda: land(file)), **dict(zip(_PEERS, peers, strict=True))}


def _check(name: str, side: str, raw: Path, typed: Path) -> None:
    """Raises RuntimeError where a table has other than all records, or they are not decoded."""
    actions = pa.table(DeltaTable(raw).get_add_actions(flatten=True))
    rows = pc.sum(actions.column("num_records")).as_py()
    ids = DeltaTable(typed).to_pyarrow_table(columns=["id"]).column("id")
    found = (rows, pc.count_distinct(ids).as_py(), len(ids), pc.max(ids).as_py())
    if found != (_RECORDS, _RECORDS, _RECORDS, _RECORDS - 1):
        raise RuntimeError(f"{name}, {side}: rows in raw, ids, rows in typed, last id: {found}")


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _decode(file: Path) -> None:
    status, answer, errors = finished(tideline("decode", file, "--json"), 900)
    if status != 0 or answer["decoded"] != _RECORDS:
        raise RuntimeError(f"{file.stem}: {answer} {errors}")


def _values(name: str, schema_id: int) -> Iterator[bytes]:
    """Records in Confluent's framing; no two are alike."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    schema = fastavro.parse_schema(_AVRO)
    order = message_class(_PROTOBUF, "Order")
    for n in range(_RECORDS):
        customer = f"c{n * 7919 % 1_000_003}"
        record = {"id": n, "customer": customer, "amount": n / 7, "paid": n % 3 == 0}
        if name == "json":
            yield head + json.dumps(record).encode()
        elif name == "protobuf":
            yield head + b"\0" + order(**record).SerializeToString()
        else:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, record)
            yield head + out.getvalue()


def _fill(servers: str, topic: str, values: Iterator[bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result(30)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": _RECORDS + 1,
        }
    )
    for n, value in enumerate(values):
        producer.produce(topic, value, partition=n % _PARTITIONS)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{topic}: records were not delivered")
