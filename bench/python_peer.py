"""What one would write without Spark, tuned: confluent-kafka, pyarrow, deltalake in a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from deltalake import write_deltalake

_BATCH = 50_000
ROWS_PER_COMMIT = 1_000_000
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
    held, rows = [], 0
    for messages in read_messages(bootstrap_servers, topic, counts):
        held.append(to_arrow(messages))
        rows += len(messages)
        if rows >= ROWS_PER_COMMIT:
            write_deltalake(table, pa.Table.from_batches(held), mode="append")
            held, rows = [], 0
    if held:
        write_deltalake(table, pa.Table.from_batches(held), mode="append")


def read_messages(bootstrap_servers: str, topic: str, counts: list[int]) -> Iterator[list[Message]]:
    """Every record of a topic, many at a time.

    Args:
        bootstrap_servers: Of the broker.
        topic: Read from its start.
        counts: Records per partition.
    """
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
    left = sum(counts)
    while left:
        # Asked for more than there is, it would wait for the whole timeout.
        messages = consumer.consume(min(_BATCH, left), timeout=10)
        if not messages:
            raise RuntimeError(f"{topic}: {left} records did not come")
        left -= len(messages)
        yield messages
    consumer.close()


_PROGRAM = """
import json, sys, time
from bench.{module} import {function}
began = time.perf_counter()
{function}(*json.loads(sys.argv[1]))
print(time.perf_counter() - began)
"""


def land_in_own_process(bootstrap_servers: str, topic: str, counts: list[int], table: str) -> float:
    """The same in a process of its own; seconds from when its modules are loaded.

    Beside a Spark session and all that the bench has loaded, Python's collector of garbage has so
    much to look through that it took half as long again.
    """
    return in_own_process(
        "python_peer", "land_with_python", bootstrap_servers, topic, counts, table
    )


def in_own_process(module: str, function: str, *arguments: object) -> float:
    """A function of the bench in a process of its own; seconds from when its modules are loaded.

    Args:
        module: Its name below `bench`.
        function: Its name there.
        arguments: What JSON can say.

    Raises:
        RuntimeError: It failed; the message holds the end of what it said.
    """
    program = _PROGRAM.format(module=module, function=function)
    command = [sys.executable, "-c", program, json.dumps(arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{function}: {done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])


def to_arrow(messages: list[Message]) -> pa.RecordBatch:
    """The messages as rows of the raw table."""
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
