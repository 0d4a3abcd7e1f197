"""The topics that all sides read, filled once per broker."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

_BODIES = 20_000
"""Values that are made, and then sent again and again, each time with another number in it: in real
topics no two are alike, and a dictionary of them would flatter whoever tries one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One topic's contents.

    Args:
        name: Also the topic's.
        records: How many, over all partitions.
        value_bytes: Size of each value.
        kind: Random bytes, which nothing compresses, or JSON as people send it.
        partitions: How many.
        skew: Share of the records that partition 0 gets; None shares evenly.
    """

    name: str
    records: int
    value_bytes: int = 100
    kind: str = "json"
    partitions: int = 4
    skew: float | None = None

    def counts(self) -> list[int]:
        """Records per partition."""
        if self.skew is None:
            first = self.records // self.partitions
        else:
            first = int(self.records * self.skew)
        rest, more = divmod(self.records - first, self.partitions - 1)
        return [first, *(rest + (n < more) for n in range(self.partitions - 1))]


LARGE = 5_000_000
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("large-100-json", LARGE),
        Shape("large-100-random", LARGE, kind="random"),
        Shape("large-1k-json", LARGE // 5, value_bytes=1000),
        Shape("large-1k-random", LARGE // 5, value_bytes=1000, kind="random"),
        Shape("skewed", LARGE, skew=0.9),
        Shape("large-200-json", 3_000_000, value_bytes=200),
        Shape("middle", 500_000),
        Shape("small", 10_000),
    )
}


def fill(bootstrap_servers: str, shape: Shape) -> None:
    """Create the shape's topic and send its records; nothing is done if it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    if shape.name in admin.list_topics(timeout=10).topics:
        return
    created = admin.create_topics([NewTopic(shape.name, shape.partitions, 1)])
    created[shape.name].result(30)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,
        }
    )
    values = list(_values(shape))
    for partition, count in enumerate(shape.counts()):
        for number in range(count):
            head, tail = values[number % _BODIES]
            value = head + b"%09d" % (number * shape.partitions + partition) + tail
            _send(producer, shape.name, value, partition)
    if producer.flush(120):
        raise RuntimeError(f"{shape.name}: records were not delivered")


def _send(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            return
        except BufferError:
            producer.poll(0.1)


def _values(shape: Shape) -> Iterator[tuple[bytes, bytes]]:
    """What stands before and behind a record's number of nine digits."""
    chance = random.Random(shape.name)
    make = {"random": _random, "json": _json}[shape.kind]
    for _ in range(_BODIES):
        yield make(chance, shape.value_bytes)


def _random(chance: random.Random, size: int) -> tuple[bytes, bytes]:
    return b"", chance.randbytes(size - 9)


def _json(chance: random.Random, size: int) -> tuple[bytes, bytes]:
    event = {
        "customer": chance.randrange(10**6),
        "kind": chance.choice(["created", "paid", "sent"]),
        "note": "",
    }
    words = ("tide", "line", "offset", "range", "table", "broker")
    while len(json.dumps(event)) < size:
        event["note"] += f" {chance.choice(words)}"
    head, rest = b'{"id": "', b'", ' + json.dumps(event).encode()[1:]
    return head, rest[: size - len(head) - 9]
