"""`make classes`: note which classes a Spark driver loads, for the archive that setup writes.

A driver without an archive lands records of each compression, decodes each format, folds, and then
ends. Its list goes into `plugins/tideline/launch/spark-classes.xz`.
"""

from __future__ import annotations

import lzma
import os
import tempfile
from pathlib import Path

from kafka import KafkaProducer

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tideline.launch.jars import spark_jars
from tideline.launch.jvm import CLASSES
from tideline.launch.local_driver import end_drivers

_RECORDS = 500
_AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
_JSON = '{"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string"}}}'
_PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; }'
_CONNECT = (
    b'{"schema": {"type": "struct", "fields": [{"field": "id", "type": "int64"}]},'
    b' "payload": {"id": 1}}'
)
FORMATS: dict[str, tuple[str, str, bytes]] = {
    "avro": ("avro", _AVRO, b"\x02"),
    "json": ("json", _JSON, b'{"id": 1, "at": "2026-01-01T00:00:00Z"}'),
    "protobuf": ("proto", _PROTOBUF, b"\x08\x01"),
}
"""Ending and text of a schema file, and a record."""


def noted(folder: Path) -> list[str]:
    """What the JVM of a driver loads, as it lists that.

    Args:
        folder: Empty.
    """
    broker = Broker(folder / "kafka").start()
    jars = str(spark_jars()[0].parent)  # they stay where they are
    os.environ |= {
        "TIDELINE_SPARK_JARS": jars,
        "TIDELINE_RUNTIME": str(folder / "run"),
        "TIDELINE_CACHE": str(folder / "cache"),
    }
    try:
        harness = StreamHarness(broker, folder, "classes", keeps_spark_warm=True)
        _land(harness)
        for name, (ending, schema, record) in FORMATS.items():
            (folder / f"order.{ending}").write_text(schema)
            _decode(harness, name, record, {"format": name, "schema": f"order.{ending}"})
        _decode(harness, "connect", _CONNECT, {"format": "json", "framing": "connect"})
        _decode(harness, "variant", b'{"id": 1}', {"format": "json"})
    finally:
        end_drivers(archived=False)
        broker.stop()
    (found,) = (folder / "cache" / "archives").glob("*.classes")
    return found.read_text().splitlines()


def _land(harness: StreamHarness) -> None:
    harness.create(partitions=1)
    for compression in (None, "gzip", "snappy", "lz4", "zstd"):
        harness.send_batch(_RECORDS, compression=compression)
    harness.run(harness.stream(), "one", None)


def _decode(harness: StreamHarness, name: str, record: bytes, value: dict[str, str]) -> None:
    """Land, decode, and fold twice: the second time there are rows to merge with."""
    harness.create(name, partitions=1)
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers, linger_ms=20)
    decode = {"key": {"format": "long"}, "value": value, "event_time": {}}
    stream = harness.stream([name], name=name, decode=decode, current={"table": {"buckets": 2}})
    for run_id in ("one", "two"):
        for n in range(_RECORDS):
            producer.send(harness.topic(name), record, n.to_bytes(8), partition=0)
        producer.flush()
        harness.run(stream, run_id, None)
    producer.close()


def write() -> None:
    """Write the list: a line a class, sorted, without what holds for one machine or version only.

    A class that another loader has loaded names its file, and an id is a number of that one list.
    Our own classes have the digest of their sources in their names.
    """
    with tempfile.TemporaryDirectory(prefix="tl-", ignore_cleanup_errors=True) as name:
        lines = noted(Path(name))
    kept = {line.partition(" id: ")[0] for line in lines if " source: " not in line}
    classes = sorted(line for line in kept if not line.startswith(("#", "@", "tideline/")))
    proxies = sorted(line for line in kept if line[:1] == "@")
    text = "".join(f"{line}\n" for line in (*classes, *proxies))
    CLASSES.write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{len(classes)} classes and {len(proxies)} lines about lambdas in {CLASSES.name}")


if __name__ == "__main__":
    write()
