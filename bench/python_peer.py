"""What one would write without Spark, tuned: confluent-kafka, pyarrow, deltalake in a process."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from deltalake import write_deltalake

_BATCH = 50_000
_ROWS_PER_COMMIT = 1_000_000
_TUNED = {
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_048_576,
    "fetch.message.max.bytes": 16 * 1024 * 1024,
    "check.crcs": False,
}
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def land_with_python(bootstrap_servers: str, topic: str, counts: list[int], table: str) -> None:
    """Read every partition to its end and append it in commits of a million rows."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **_TUNED,
        }
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(len(counts))])
    left, held, rows = sum(counts), [], 0
    while left:
        # Asked for more than there is, it would wait for the whole timeout.
        messages = consumer.consume(min(_BATCH, left), timeout=10)
        if not messages:
            raise RuntimeError(f"{topic}: {left} records did not come")
        held.append(_to_arrow(messages))
        rows += len(messages)
        left -= len(messages)
        if rows >= _ROWS_PER_COMMIT or not left:
            write_deltalake(table, pa.Table.from_batches(held), mode="append")
            held, rows = [], 0
    consumer.close()


_PROGRAM = """
import json, sys, time
from bench.python_peer import land_with_python
began = time.perf_counter()
land_with_python(*json.loads(sys.argv[1]))
print(time.perf_counter() - began)
"""


def land_in_own_process(bootstrap_servers: str, topic: str, counts: list[int], table: str) -> float:
    """The same in a process of its own; seconds from when its modules are loaded.

    Beside a Spark session and all that the bench has loaded, Python's collector of garbage has so
    much to look through that it took half as long again.
    """
    arguments = json.dumps([bootstrap_servers, topic, counts, table])
    command = [sys.executable, "-c", _PROGRAM, arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def _to_arrow(messages: list) -> pa.RecordBatch:
    times = [message.timestamp() for message in messages]
    columns = [
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [at for _, at in times],
        [kind for kind, _ in times],
        [message.key() for message in messages],
        [message.value() for message in messages],
    ]
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
