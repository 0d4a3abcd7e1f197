"""Kafka in memory, as the contract test of its port wants it (`tests.worlds.clusters`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.simulation.kafka import OPEN, RECORD, Cluster, Entry, Log, SimulatedKafka, Topic


class SimulatedKafkaWorld:
    """One cluster in memory and what happens in it."""

    def __init__(self) -> None:
        self.cluster = Cluster("cluster-of-22-letters-")
        self.port = SimulatedKafka(lambda: self.cluster)
        self._created = 0
        self._producers = 0

    def topic(self, suffix: str = "orders") -> str:
        """A topic's whole name."""
        return f"w-{suffix}"

    def create(self, suffix: str = "orders", partitions: int = 1, **config: str) -> str:
        """A new topic."""
        self._created += 1
        topic = Topic(f"{self._created:08d}-0000-4000-8000-000000000000", [], config)
        self.cluster.topics[self.topic(suffix)] = topic
        topic.logs += [Log() for _ in range(partitions)]
        return self.topic(suffix)

    def delete(self, suffix: str = "orders") -> None:
        """The topic is deleted."""
        del self.cluster.topics[self.topic(suffix)]

    def grow(self, partitions: int) -> None:
        """Further partitions."""
        logs = self.cluster.topics[self.topic()].logs
        logs += [Log() for _ in range(partitions - len(logs))]

    def send(self, count: int, partition: int = 0, suffix: str = "orders") -> None:
        """Records outside of a transaction."""
        log = self.cluster.topics[self.topic(suffix)].logs[partition]
        log.entries += [Entry(RECORD, 1, _ms(datetime.now(UTC)))] * count

    def send_at(self, *times: datetime, partition: int = 0) -> None:
        """One record per time."""
        log = self.cluster.topics[self.topic()].logs[partition]
        log.entries += [Entry(RECORD, 1, _ms(at)) for at in times]

    def transaction(self, count: int, commits: bool | None, ago: timedelta = timedelta()) -> None:
        """Records in a transaction, and its marker unless it stays open."""
        self._producers += 1
        log, now = self.cluster.topics[self.topic()].logs[0], datetime.now(UTC)
        log.entries += [Entry(OPEN, 1, _ms(now - ago), self._producers)] * count
        if commits is not None:
            log.end_transaction(self._producers, commits, _ms(now))

    def delete_records(self, before: int) -> None:
        """The log starts there now."""
        self.cluster.topics[self.topic()].logs[0].log_start = before

    def close(self) -> None:
        """Nothing is left open."""


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
