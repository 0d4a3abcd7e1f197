"""What typed tables cost: decoding, held against landing the same records raw."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.landing import LOCAL_SPARK, land, write_archive
from bench.tables import Table, judged, milliseconds
from devstack.broker import Broker
from devstack.command_line import finished, tideline
from devstack.harness import StreamHarness
from devstack.registry import Registry
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
_PASSES = {"avro": 1 / 0.5, "json": 1 / 0.45}


def decoding(folder: Path) -> Table:
    """Seconds of landing and of decoding, for each format; Spark is warm.

    Args:
        folder: Empty.
    """
    write_archive()
    os.environ.update(LOCAL_SPARK)
    table = Table(
        "Typed tables",
        f"{_RECORDS:,} records of four fields. `tideline run` lands them raw, then `tideline"
        " decode` makes typed rows of them; both from the command's start to its end, Spark being"
        f" warm. Medians of {_TIMES} after one that does not count.",
        ("format", "land", "decode", "land / decode", "pass", "verdict"),
    )
    broker = Broker(folder / "kafka", heap_mb=1024).start()
    registry = Registry(folder / "registry").start()
    os.environ["AIRFLOW_CONN_BENCH_REGISTRY"] = json.dumps(registry.connection)
    try:
        harness = StreamHarness(broker, folder, "bench", keeps_spark_warm=True)
        for name, texts in (("avro", _AVRO), ("json", _JSON)):
            schema_id = registry.register(name, json.dumps(texts), name.upper())
            _fill(broker.bootstrap_servers, name, _values(name, schema_id))
            taken = [_both(harness, folder, name) for _ in range(_TIMES + 1)][1:]
            landed, decoded = (median(seconds) for seconds in zip(*taken, strict=True))
            table.add(
                name,
                milliseconds(landed),
                milliseconds(decoded),
                f"{landed / decoded:.2f}",
                f">= {1 / _PASSES[name]:.2f}",
                judged(decoded / landed, _PASSES[name]),
            )
    finally:
        end_drivers()
        registry.stop()
        broker.stop()
    return table


def _both(harness: StreamHarness, folder: Path, name: str) -> tuple[float, float]:
    """Seconds of landing and of decoding into new tables."""
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    settings = {
        "name": name,
        "kafka": {"connection": harness.connection, "topics": [name]},
        "spark": {"connection": "bench_spark"},
    }
    raw = harness.stream_file(**settings)
    landed = _timed(lambda: land(raw))
    typed = harness.stream_file(
        **settings,
        registry={"connection": "bench_registry"},
        decode={
            "value": {"format": name, "subject": name},
            "table": {"uri": str(lake / "typed")},
            "quarantine": {"uri": str(lake / "quarantine")},
        },
    )
    decoded = _timed(lambda: _decode(typed))
    return landed, decoded


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
    for n in range(_RECORDS):
        customer = f"c{n * 7919 % 1_000_003}"
        record = {"id": n, "customer": customer, "amount": n / 7, "paid": n % 3 == 0}
        if name == "json":
            yield head + json.dumps(record).encode()
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
