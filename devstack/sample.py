"""Sample events, and the producer's own log of them: the oracle of every proof."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable, QueryBuilder
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tideline.delta_io.arrow_tables import from_delta

Coordinate = tuple[str, int, int]


@dataclass
class ProducerLog:
    """What a producer was told that it had written.

    Args:
        written: Hash of the value by (topic id, partition, offset).
    """

    bootstrap_servers: str
    written: dict[Coordinate, str] = field(default_factory=dict)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until it can be used."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])
            admin.wait_for_topics([topic])
        finally:
            admin.close()

    def produce(self, topic: str, count: int, seed: int = 0) -> None:
        """Send JSON events, some without a value (tombstones), to all partitions."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        description = admin.describe_topics([topic])[0]
        admin.close()
        topic_id, partitions = str(description["topic_id"]), len(description["partitions"])
        rng = random.Random(seed)
        producer = KafkaProducer(bootstrap_servers=self.bootstrap_servers, linger_ms=20)
        sent = []
        for number in range(count):
            key = f"order-{rng.randrange(1000)}".encode()
            event = {"number": number, "seed": seed, "amount": rng.randrange(1, 10_000)}
            value = None if rng.random() < 0.01 else json.dumps(event).encode()
            headers = [("source", b"sample")]
            where = rng.randrange(partitions)
            future = producer.send(topic, value, key=key, partition=where, headers=headers)
            sent.append((future, value))
        producer.flush()
        for future, value in sent:
            metadata = future.get(timeout=30)
            place = (topic_id, metadata.partition, metadata.offset)
            self.written[place] = value_hash(value)
        producer.close()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Producer's log against table: every count but `equal` should be zero."""

    equal: int
    lost: int
    duplicate: int
    foreign: int
    different: int

    @property
    def exact(self) -> bool:
        """Whether the table holds exactly what was produced, once."""
        return not (self.lost or self.duplicate or self.foreign or self.different)


def compare(log: ProducerLog, table: Path) -> Comparison:
    """Read every row of the table and hold it against the producer's log."""
    query = QueryBuilder().register("landed", DeltaTable(str(table)))
    found_rows = query.execute('SELECT topic_id, "partition", "offset", value FROM landed')
    rows = from_delta(found_rows.read_all()).to_pydict()
    places = list(zip(rows["topic_id"], rows["partition"], rows["offset"], strict=True))
    found = dict(zip(places, map(value_hash, rows["value"]), strict=True))
    copies = Counter(places)
    return Comparison(
        equal=sum(1 for place, value in found.items() if log.written.get(place) == value),
        lost=len(log.written.keys() - found.keys()),
        duplicate=sum(count - 1 for count in copies.values()),
        foreign=len(found.keys() - log.written.keys()),
        different=sum(
            1 for place, value in found.items() if log.written.get(place, value) != value
        ),
    )


def value_hash(value: bytes | None) -> str:
    """A fingerprint that tells a tombstone from an empty value."""
    return "tombstone" if value is None else hashlib.sha256(value).hexdigest()
