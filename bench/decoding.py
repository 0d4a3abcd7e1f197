"""What typed tables cost: decoding against landing raw, and both together against two peers."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
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
from devstack.harness import StreamHarness
from devstack.process import HOST
from devstack.protobuf_messages import message_class
from devstack.registry import PATH, Registry
from tideline.launch.local_driver import end_drivers

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
_RUNS = ("first run", "second run")


@dataclass(frozen=True, slots=True)
class _Topic:
    """Records of four fields.

    Args:
        unknown: How many more fields a document has, which no schema knows; 29 bytes each.
        bad: Every so many records cannot be decoded; 0 for none.
        passes: Land and decode by landing alone, at most, of the first run and of the second.
    """

    name: str
    format: str
    records: int = 1_000_000
    unknown: int = 0
    bad: int = 0
    passes: tuple[float, float] | None = None

    @property
    def good(self) -> int:
        """How many records can be decoded."""
        return self.records - (self.records // self.bad if self.bad else 0)


_TOPICS = (
    _Topic("json", "json", passes=(1.6, 2.2)),
    _Topic("avro", "avro", passes=(1.5, 1.9)),
    _Topic("protobuf", "protobuf", passes=(1.5, 1.9)),
    _Topic("json-bad", "json", bad=10),
    _Topic("json-wide", "json", records=500_000, unknown=20),
    _Topic("json-large", "json", records=5_000_000),
)
_WHOLE = _TOPICS[:2]
"""Formats that the peers know as well."""
_MOST_OF_GOOD = 2.0
"""A topic with bad records by one without, in time, at most."""
_PEERS: dict[str, dict[str, dict[str, float]]] = {
    "AvailableNow, from_avro or from_json": {
        run: {"json": 1.2, "avro": 1.2} for run in ("first run", "second run")
    },
    "confluent-kafka's deserializer": {
        "first run": {"json": 1.0, "avro": 1.0},
        "second run": {"json": 2.0, "avro": 2.0},
    },
    "fastavro or orjson by hand": {"second run": {"json": 0.9, "avro": 1.1}},
}
"""The peer's time by ours, at least, by peer, run and format, where there is an aim."""


def decoding(folder: Path) -> Table:
    """Seconds of landing alone, and of landing and decoding, cold and warm.

    Args:
        folder: Empty.
    """
    table = Table(
        "Typed tables",
        "`tideline run` of a stream without `decode:` (raw) and with it (typed): records of four"
        " fields out of four partitions into new tables, from the command's start to its end. The"
        " first run starts Spark, the second finds it warm; the four take turns to begin. json-bad"
        " has one record in ten that cannot be decoded, json-wide twenty more fields in each record"
        f" that no schema knows. Medians of {_TIMES} after one that does not count; typed by raw.",
        (
            *("topic", "records", "raw, first", "typed, first", "ratio", "pass", "verdict"),
            *("raw, second", "typed, second", "ratio", "pass", "verdict"),
        ),
    )
    with _topics(folder, _TOPICS) as (harness, _):
        seconds: dict[str, float] = {}
        for topic in _TOPICS:
            found = _raw_and_typed(harness, topic)
            cells = [topic.name, f"{topic.records:,}"]
            for run, passes in zip(_RUNS, topic.passes or (None, None), strict=True):
                raw, typed = found["raw", run], found["typed", run]
                verdict = "" if passes is None else judged(typed / raw, passes)
                wanted = "" if passes is None else f"<= {passes}"
                if topic.bad:
                    of_good = typed / seconds[run]
                    wanted = f"<= {_MOST_OF_GOOD} x json"
                    verdict = f"{judged(of_good, _MOST_OF_GOOD)}, {of_good:.2f}"
                ratio = f"{typed / raw:.2f}"
                cells += [milliseconds(raw), milliseconds(typed), ratio, wanted, verdict]
            if topic.name == "json":
                seconds = {run: found["typed", run] for run in _RUNS}
            table.add(*cells)
    return table


def _raw_and_typed(harness: StreamHarness, topic: _Topic) -> dict[tuple[str, str], float]:
    """Median seconds of each kind of stream in its first run and its second."""
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    files = {"raw": _file(harness, topic, decodes=False), "typed": _file(harness, topic)}
    kinds = tuple(files)
    for order in orders(_TIMES + 1, seed=1):
        for which in order:
            end_drivers()
            for run in _RUNS:
                shutil.rmtree(harness.folder / "lake", ignore_errors=True)
                taken[kinds[which], run].append(_timed(partial(land, files[kinds[which]])))
                if kinds[which] == "typed":
                    _check(topic, run, harness.folder / "lake")
    for side, seconds in taken.items():
        print(f"  {topic.name}, {side}: {seconds}", flush=True)
    return {side: median(seconds[1:]) for side, seconds in taken.items()}


def decoding_whole(folder: Path) -> Table:
    """A run that lands and decodes, against the peers that do both, in pairs.

    Args:
        folder: Empty.
    """
    table = Table(
        "Typed tables, land and decode",
        "A million records of four fields into a raw and a typed table, both new, whole"
        " processes from their start to their end. Ours is `tideline run` with `decode:`; its"
        " first run starts Spark, its second finds it warm. AvailableNow is an application for"
        " spark-submit with `foreachBatch`; the Python peers are confluent-kafka, pyarrow and"
        " deltalake, one with confluent-kafka's deserializer, one without."
        " The peers write fewer columns, and have neither a quarantine nor a proof."
        f" Medians of {_TIMES} pairs after one that does not count; times of the other by ours.",
        ("format", "other", "ours", "our time", "other's time", "ratio", "pass", "verdict"),
    )
    with _topics(folder, _WHOLE) as (harness, registry):
        for topic in _WHOLE:
            taken = _in_pairs(harness, registry, topic)
            for peer, wanted in _PEERS.items():
                for run in _RUNS:
                    found = estimate(taken[run], taken[peer])
                    times = (milliseconds(median(taken[side])) for side in (run, peer))
                    passes = wanted.get(run, {}).get(topic.format)
                    told = ("", "")
                    if passes is not None:
                        told = (f">= {passes}", judged(1 / found.ratio, 1 / passes))
                    table.add(topic.name, peer, run, *times, str(found), *told)
    return table


@contextmanager
def _topics(folder: Path, topics: Iterable[_Topic]) -> Iterator[tuple[StreamHarness, Registry]]:
    """A broker with these topics, and the registry with their schemas."""
    write_archive()
    os.environ.update(LOCAL_SPARK)
    with ExitStack() as running:
        broker = Broker(folder / "kafka", heap_mb=1024).start()
        running.callback(broker.stop)
        registry = Registry(folder / "registry").start()
        running.callback(registry.stop)
        running.callback(end_drivers)
        os.environ["AIRFLOW_CONN_BENCH_REGISTRY"] = json.dumps(registry.connection)
        for topic in topics:
            text, kind = _SCHEMAS[topic.format], topic.format.upper()
            schema_id = registry.register(topic.name, text, kind)
            _fill(broker.bootstrap_servers, topic, _values(topic, schema_id))
        yield StreamHarness(broker, folder, "bench", keeps_spark_warm=True), registry


def _file(harness: StreamHarness, topic: _Topic, *, decodes: bool = True) -> Path:
    """Write the stream file, with typed tables or without."""
    lake = harness.folder / "lake"
    decode = {
        "value": {"format": topic.format, "subject": topic.name},
        "table": {"uri": str(lake / "typed")},
        "quarantine": {"uri": str(lake / "quarantine"), "max_share": 1.0},
    }
    typed = {"registry": {"connection": "bench_registry"}, "decode": decode}
    most = {"max_records_per_run": topic.records, "max_records_per_partition": topic.records}
    return harness.stream_file(
        name=topic.name if decodes else f"{topic.name}-raw",
        kafka={"connection": harness.connection, "topics": [topic.name]},
        table={"uri": str(lake / "raw")},
        spark={"connection": "bench_spark"},
        limits=most,
        **(typed if decodes else {}),
    )


def _in_pairs(harness: StreamHarness, registry: Registry, topic: _Topic) -> dict[str, list[float]]:
    """Seconds of our runs and of each peer, by name: ours and the others take turns to begin."""
    ways = _ways(harness, registry, topic)
    taken: dict[str, list[float]] = {side: [] for side in ways}
    lake = harness.folder / "lake"
    for order in orders(_TIMES + 1, seed=1):
        for which in order:
            end_drivers()  # so that the first run starts Spark, and no peer has it beside it
            for side in (_RUNS, tuple(_PEERS))[which]:
                shutil.rmtree(lake, ignore_errors=True)
                taken[side].append(_timed(ways[side]))
                _check(topic, side, lake)
                print(f"  {topic.name}, {side}: {taken[side][-1]:.2f} s", flush=True)
    return {side: seconds[1:] for side, seconds in taken.items()}


def _ways(
    harness: StreamHarness, registry: Registry, topic: _Topic
) -> dict[str, Callable[[], None]]:
    servers, lake = harness.broker.bootstrap_servers, str(harness.folder / "lake")
    file, name = _file(harness, topic), topic.format
    columns = ", ".join(f"{field} {kind}" for field, kind in _FIELDS)
    schema = _SCHEMAS[name] if name == "avro" else columns
    counts = [len(range(p, topic.records, _PARTITIONS)) for p in range(_PARTITIONS)]
    python = (servers, topic.name, counts, lake, f"http://{HOST}:{registry.port}{PATH}", name)

    def in_python(*, by_hand: bool) -> None:
        in_own_process("typed_peer", "land_and_decode", *python, by_hand)

    peers = (
        lambda: spark_submit(typed_available_now.__file__, servers, topic.name, lake, name, schema),
        lambda: in_python(by_hand=False),
        lambda: in_python(by_hand=True),
    )
    return {**dict.fromkeys(_RUNS, lambda: land(file)), **dict(zip(_PEERS, peers, strict=True))}


def _check(topic: _Topic, side: str, lake: Path) -> None:
    """Raises RuntimeError where a table has other than all records, or they are not decoded."""
    actions = pa.table(DeltaTable(lake / "raw").get_add_actions(flatten=True))
    rows = pc.sum(actions.column("num_records")).as_py()
    ids = DeltaTable(lake / "typed").to_pyarrow_table(columns=["id"]).column("id")
    found = (rows, pc.count_distinct(ids).as_py(), len(ids))
    if found != (topic.records, topic.good, topic.good):
        raise RuntimeError(f"{topic.name}, {side}: rows in raw, ids, rows in typed: {found}")


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _values(topic: _Topic, schema_id: int) -> Iterator[bytes]:
    """Records in Confluent's framing; no two are alike."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    schema = fastavro.parse_schema(_AVRO)
    order = message_class(_PROTOBUF, "Order")
    unknown = {f"field_{n:02}": f"a text of value {n:02}" for n in range(topic.unknown)}
    for n in range(topic.records):
        customer = f"c{n * 7919 % 1_000_003}"
        record = {"id": n, "customer": customer, "amount": n / 7, "paid": n % 3 == 0}
        if topic.bad and n % topic.bad == 0:
            record["id"] = f"{n}"
        if topic.format == "json":
            yield head + json.dumps(record | unknown).encode()
        elif topic.format == "protobuf":
            yield head + b"\0" + order(**record).SerializeToString()
        else:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, record)
            yield head + out.getvalue()


def _fill(servers: str, topic: _Topic, values: Iterator[bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic.name, _PARTITIONS, 1)])[topic.name].result(30)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": topic.records + 1,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    for n, value in enumerate(values):
        producer.produce(topic.name, value, partition=n % _PARTITIONS)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{topic.name}: records were not delivered")
