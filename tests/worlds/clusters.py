"""Clusters, with what happens to them: producers, retention, deletion, an unclean restart.

The contract test of `KafkaPort` runs over each kind of world (`WORLDS`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from kafka import KafkaProducer
from kafka.admin import NewPartitions

from devstack.harness import StreamHarness
from devstack.process import wait_until
from tests.simulation.kafka_world import SimulatedKafkaWorld
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_port import KafkaPort
from tideline.kafka.kafka_settings import KafkaSettings

_PATIENCE_MS = 2000
"""How long the client tries again; a test that waits for ServiceAway takes so long."""


class KafkaWorld(Protocol):
    """One cluster and what happens in it; `port` is what is tested.

    Topics have the world's prefix before their names. Times are UTC-aware.
    """

    port: KafkaPort

    def topic(self, suffix: str = "orders") -> str:
        """A topic's whole name."""

    def create(self, suffix: str = "orders", partitions: int = 1, **config: str) -> str:
        """A new topic; its whole name. `config` are Kafka's own properties of topics."""

    def delete(self, suffix: str = "orders") -> None:
        """The topic is deleted."""

    def grow(self, partitions: int) -> None:
        """The topic `orders` has so many partitions from now on."""

    def send(self, count: int, partition: int = 0, suffix: str = "orders") -> None:
        """Records outside of a transaction, written now."""

    def send_at(self, *times: datetime, partition: int = 0) -> None:
        """One record of the topic `orders` per time, each in a batch of its own."""

    def transaction(self, count: int, commits: bool | None, ago: timedelta = timedelta()) -> None:
        """Records of partition 0 of `orders` in a transaction, and its marker, written now.

        Args:
            count: How many.
            commits: False aborts; None leaves it open, until the world is closed.
            ago: How old the records are; the marker is new.
        """

    def delete_records(self, before: int) -> None:
        """The log of partition 0 of `orders` starts there now."""

    def close(self) -> None:
        """Ends what is open."""


class BrokerWorld:
    """Names of a harness on a real broker.

    Args:
        harness: Its topics and producers.
    """

    def __init__(self, harness: StreamHarness) -> None:
        self._harness = harness
        self._open: list[KafkaProducer] = []
        servers = {
            "bootstrap.servers": harness.broker.bootstrap_servers,
            "default.api.timeout.ms": _PATIENCE_MS,
        }
        self._client = KafkaCluster(KafkaSettings("k", servers))
        self.port: KafkaPort = self._client

    def topic(self, suffix: str = "orders") -> str:
        return self._harness.topic(suffix)

    def create(self, suffix: str = "orders", partitions: int = 1, **config: str) -> str:
        return self._harness.create(suffix, partitions, **config)

    def delete(self, suffix: str = "orders") -> None:
        self._harness.delete(suffix)

    def grow(self, partitions: int) -> None:
        with self._harness.admin() as admin:
            admin.create_partitions({self.topic(): NewPartitions(partitions)})

        def has_grown() -> bool:
            (seen,) = self.port.observe([self.topic()], {}).topics
            return len(seen.partitions) == partitions and seen.answered

        wait_until(has_grown, "the new partition has no leader", 20)

    def send(self, count: int, partition: int = 0, suffix: str = "orders") -> None:
        self._harness.send(count, suffix, partition)

    def send_at(self, *times: datetime, partition: int = 0) -> None:
        for at in times:
            self._harness.send_at(at, partition=partition)

    def transaction(self, count: int, commits: bool | None, ago: timedelta = timedelta()) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._harness.broker.bootstrap_servers,
            transactional_id=f"{self._harness.name}-{len(self._open)}",
        )
        self._open.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        at = round((datetime.now(UTC) - ago).timestamp() * 1000)
        sent = [
            producer.send(self.topic(), b"x", partition=0, timestamp_ms=at) for _ in range(count)
        ]
        for record in sent:
            record.get(30)
        if commits is None:
            return
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        self._open.pop().close()

    def delete_records(self, before: int) -> None:
        self._harness.delete_records(before)

    def close(self) -> None:
        for producer in self._open:
            producer.abort_transaction()
            producer.close()
        self._client.close()


WORLDS = {"kafka": BrokerWorld, "simulated": SimulatedKafkaWorld}
"""Every kind of cluster; the first is given a harness, the others nothing."""
