"""Sample events, and a log of what was produced, which the table is compared with."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from deltalake import DeltaTable, QueryBuilder
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tideline.delta.delta_io import from_delta

Coordinate = tuple[str, int, int]


@dataclass
class ProducerLog:
    """Everything that a producer has written and the broker has acknowledged.

    Args:
        bootstrap_servers: Address of the broker.
        written: Hash of the value by (topic id, partition, offset).
    """

    bootstrap_servers: str
    written: dict[Coordinate, str] = field(default_factory=dict)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with one replica and wait until the broker knows it."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])
            admin.wait_for_topics([topic])
        finally:
            admin.close()

    def produce(self, topic: str, count: int, seed: int = 0) -> None:
        """Send JSON events to random partitions; one in a hundred is a tombstone (no value).

        Args:
            topic: A topic that exists.
            count: Number of events.
            seed: The same seed gives the same events.

        Raises:
            kafka.errors.KafkaError: The broker has not acknowledged an event within 30 s.
        """
        rng = random.Random(seed)
        values: list[bytes | None] = []
        for number in range(count):
            event = {"number": number, "seed": seed, "amount": rng.randrange(1, 10_000)}
            values.append(None if rng.random() < 0.01 else json.dumps(event).encode())
        self.send(topic, values, rng)

    def send(self, topic: str, values: Iterable[bytes | None], rng: random.Random) -> None:
        """Send values to random partitions.

        Args:
            topic: A topic that exists.
            values: None is a tombstone.
            rng: Chooses partitions and keys.

        Raises:
            kafka.errors.KafkaError: The broker has not acknowledged a value within 30 s.
        """
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        description = admin.describe_topics([topic])[0]
        admin.close()
        topic_id, partitions = str(description["topic_id"]), len(description["partitions"])
        producer = KafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=20)
        sent = []
        for value in values:
            key = f"order-{rng.randrange(1000)}".encode()
            headers = [("source", b"sample")]
            partition = rng.randrange(partitions)
            future = producer.send(topic, value, key=key, partition=partition, headers=headers)
            sent.append((future, value))
        producer.flush()
        for future, value in sent:
            metadata = future.get(timeout=30)
            coordinate = (topic_id, metadata.partition, metadata.offset)
            self.written[coordinate] = value_hash(value)
        producer.close()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Producer's log against table; in a correct table every count but `equal` is zero.

    Args:
        equal: Coordinates with the value that was produced.
        lost: Coordinates that were produced and are not in the table.
        duplicate: Rows beyond the first one of their coordinate.
        foreign: Coordinates in the table that were not produced.
        different: Coordinates with another value than the one that was produced.
    """

    equal: int
    lost: int
    duplicate: int
    foreign: int
    different: int

    @property
    def exact(self) -> bool:
        """Whether the table holds everything that was produced exactly once, and nothing else."""
        return not (self.lost or self.duplicate or self.foreign or self.different)


def compare(log: ProducerLog, table_uri: str) -> Comparison:
    """Compare every row of a Delta table with the producer's log."""
    query = QueryBuilder().register("landed", DeltaTable(table_uri))
    answer = query.execute('SELECT topic_id, "partition", "offset", value FROM landed')
    rows = from_delta(answer.read_all()).to_pydict()
    coordinates = list(zip(rows["topic_id"], rows["partition"], rows["offset"], strict=True))
    landed = dict(zip(coordinates, map(value_hash, rows["value"]), strict=True))
    copies = Counter(coordinates)
    return Comparison(
        equal=sum(1 for at, value in landed.items() if log.written.get(at) == value),
        lost=len(log.written.keys() - landed.keys()),
        duplicate=sum(count - 1 for count in copies.values()),
        foreign=len(landed.keys() - log.written.keys()),
        different=sum(1 for at, value in landed.items() if log.written.get(at, value) != value),
    )


def value_hash(value: bytes | None) -> str:
    """A hash that differs between a tombstone (None) and an empty value."""
    return "tombstone" if value is None else hashlib.sha256(value).hexdigest()
