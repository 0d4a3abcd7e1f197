"""The producer's own log, and a reader of its own: what was acknowledged, what is still there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from devstack.sample import ProducerLog, value_hash

Record = tuple[str, int, int, str]
"""Topic id, partition, offset, hash of the value."""


@dataclass
class Recorder(ProducerLog):
    """Sends records that are all different, and writes down what brokers have acknowledged.

    Args:
        acknowledged: Every record ever acknowledged, also where the log was cut and written anew;
            `written` has the last one of each coordinate. Aborted ones are in neither.
        topics: Names that were sent to.
        compression: Of what is sent: `lz4` and such; None for none.
    """

    acknowledged: set[Record] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    sent: int = 0
    compression: str | None = None

    def send(
        self,
        topic: str,
        count: int,
        partition: int = 0,
        *,
        size: int = 0,
        keys: Iterable[str] = (),
        timestamp_ms: int | None = None,
        each_alone: bool = False,
    ) -> None:
        """Send records to one partition; returns when all in-sync replicas have them.

        Args:
            topic: Where to.
            count: How many.
            partition: Where to.
            size: Bytes of a value, at least.
            keys: Keys, used in turn; none by default.
            timestamp_ms: Their time, now by default.
            each_alone: One batch per record.
        """
        topic_id, wanted = self._topic_id(topic), list(keys) or [None]
        with self._producer() as producer:
            sent = []
            for number in range(count):
                key, value = wanted[number % len(wanted)], self._value(size)
                future = producer.send(
                    topic,
                    value,
                    key=None if key is None else key.encode(),
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                )
                sent.append((future, value))
                if each_alone:
                    producer.flush()
            self._acknowledge(topic_id, sent)

    def send_tombstones(self, topic: str, count: int, partition: int = 0) -> None:
        """Send keys without a value to one partition."""
        topic_id = self._topic_id(topic)
        with self._producer() as producer:
            keys = [f"key {number}".encode() for number in range(count)]
            sent = [(producer.send(topic, None, key=k, partition=partition), None) for k in keys]
            self._acknowledge(topic_id, sent)

    def transact(
        self, topic: str, *transactions: tuple[int, bool], transactional_id: str = "recorder"
    ) -> None:
        """Transactions to partition 0, each (records, whether it commits)."""
        topic_id = self._topic_id(topic)
        with self._producer(transactional_id=f"{topic}-{transactional_id}") as producer:
            producer.init_transactions()
            for count, commits in transactions:
                producer.begin_transaction()
                values = [self._value() for _ in range(count)]
                sent = [(producer.send(topic, value, partition=0), value) for value in values]
                producer.flush()
                if commits:
                    producer.commit_transaction()
                    self._acknowledge(topic_id, sent)
                else:
                    producer.abort_transaction()

    @contextmanager
    def open_transaction(self, topic: str, count: int) -> Iterator[None]:
        """A transaction that is open for a block, and is committed at its end."""
        topic_id = self._topic_id(topic)
        options = {"transactional_id": f"{topic}-open", "transaction_timeout_ms": 800_000}
        with self._producer(**options) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            values = [self._value() for _ in range(count)]
            sent = [(producer.send(topic, value, partition=0), value) for value in values]
            producer.flush()
            yield
            producer.commit_transaction()
            self._acknowledge(topic_id, sent)

    def readable(self) -> tuple[set[Record], dict[tuple[str, int], int]]:
        """What stands in the log now, by a consumer, and log starts by (topic id, partition)."""
        records: set[Record] = set()
        starts: dict[tuple[str, int], int] = {}
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            auto_offset_reset="earliest",
        )
        try:
            for topic in sorted(self.topics & consumer.topics()):
                topic_id = self._topic_id(topic)
                places = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
                for place, start in consumer.beginning_offsets(places).items():
                    starts[topic_id, place.partition] = start
                records |= {(topic_id, *rest) for rest in _read(consumer, places)}
        finally:
            consumer.close()
        return records, starts

    def _value(self, size: int = 0) -> bytes:
        self.sent += 1
        return f"record {self.sent}".encode().ljust(size, b".")

    def _topic_id(self, topic: str) -> str:
        self.topics.add(topic)
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            return str(admin.describe_topics([topic])[0]["topic_id"])
        finally:
            admin.close()

    @contextmanager
    def _producer(self, **options: object) -> Iterator[KafkaProducer]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap_servers,
            acks="all",
            linger_ms=20,
            compression_type=self.compression,
            **options,
        )
        try:
            yield producer
        finally:
            producer.close(timeout=10)

    def _acknowledge(self, topic_id: str, sent: Iterable[tuple[object, bytes | None]]) -> None:
        for future, value in sent:
            metadata = future.get(timeout=60)
            place, known_by = (topic_id, metadata.partition, metadata.offset), value_hash(value)
            self.written[place] = known_by
            self.acknowledged.add((*place, known_by))


def _read(
    consumer: KafkaConsumer, places: list[TopicPartition], timeout_seconds: float = 60
) -> Iterator[tuple[int, int, str]]:
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends = consumer.end_offsets(places)
    deadline = time.monotonic() + timeout_seconds
    while any(consumer.position(place) < end for place, end in ends.items()):
        for place, found in consumer.poll(timeout_ms=200).items():
            yield from ((place.partition, r.offset, value_hash(r.value)) for r in found)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the log of {places} was not read to its end {ends}")
