"""Three real brokers, and how to make them lose acknowledged records."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.protocol.admin import ElectionType, ElectLeadersRequest
from kafka.protocol.metadata import MetadataRequest

from devstack.broker import Broker, new_cluster_id
from devstack.process import HOST, free_ports, wait_until

_CONTROLLER = 1
_SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


class ThreeBrokers:
    """Broker 1 is the controller too and stays up; brokers 2 and 3 may come and go.

    Args:
        folder: Holds the brokers' folders.
        settings: Broker properties on top of the defaults.

    Topics whose leaders shall fail belong on brokers 2 and 3, as `create_topic` puts them:
    without broker 1 nobody shrinks an ISR or elects a leader.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        controller, *ports = free_ports(4)
        cluster_id = new_cluster_id()
        self.brokers: dict[int, Broker] = {}
        for number, port in enumerate(ports, _CONTROLLER):
            own = {
                "node.id": str(number),
                "process.roles": "broker",
                "listeners": f"PLAINTEXT://{HOST}:{port}",
                "controller.quorum.voters": f"{_CONTROLLER}@{HOST}:{controller}",
            }
            if number == _CONTROLLER:
                own["process.roles"] = "broker,controller"
                own["listeners"] += f",CONTROLLER://{HOST}:{controller}"
            self.brokers[number] = Broker(
                folder / f"broker-{number}",
                port,
                {**own, **_SETTINGS, **(settings or {})},
                cluster_id=cluster_id,
                heap_mb=256,
            )

    @property
    def bootstrap_servers(self) -> str:
        """All three; clients find whichever is up."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def __enter__(self) -> ThreeBrokers:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> ThreeBrokers:
        """Start all, and wait until the controller counts on each of them."""
        try:
            self._start(self.brokers)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all, the controller last."""
        with ExitStack() as stack:
            for broker in self.brokers.values():
                stack.callback(broker.stop)

    def start_broker(self, number: int) -> None:
        """Start one on its old data, and wait until the controller counts on it."""
        self._start([number])

    def stop_broker(self, number: int) -> None:
        """A clean shutdown: its leaderships move first, if somebody can take them."""
        self.brokers[number].stop()

    def kill(self, number: int) -> None:
        """SIGKILL; the cluster notices when the session times out, after 4 s."""
        server = self.brokers[number].server
        if server is not None:
            server.signal(signal.SIGKILL)
        self.brokers[number].stop()

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """An admin client that comes in through broker 1."""
        client = KafkaAdminClient(bootstrap_servers=self.brokers[_CONTROLLER].bootstrap_servers)
        try:
            yield client
        finally:
            client.close()

    def create_topic(
        self, name: str, replicas: Iterable[int] = (2, 3), partitions: int = 1, **config: str
    ) -> None:
        """Create a topic, all its replicas on these brokers, the first one leading.

        Acknowledged means written by one replica, unless `config` says otherwise.
        """
        wanted = list(replicas)
        topic = {
            "assignments": dict.fromkeys(range(partitions), wanted),
            "configs": {"min.insync.replicas": "1", **config},
        }
        with self.admin() as admin:
            admin.create_topics({name: topic}, wait_for_metadata=True)
        for partition in range(partitions):
            self.wait_in_sync(name, partition, wanted)

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """The leader as broker 1 knows it; None while there is none."""
        leader = self._partition(topic, partition).leader_id
        return leader if leader >= 0 else None

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """The in-sync replicas as broker 1 knows them."""
        return set(self._partition(topic, partition).isr_nodes)

    def wait_in_sync(
        self, topic: str, partition: int, replicas: Iterable[int], timeout_seconds: float = 60
    ) -> None:
        """Wait until exactly these replicas are in sync."""
        wanted = set(replicas)
        what = f"{topic}-{partition}: not {wanted} in sync"
        wait_until(lambda: self.in_sync(topic, partition) == wanted, what, timeout_seconds)

    def isolate_leader(self, topic: str, partition: int = 0) -> int:
        """Stop every follower and wait until the leader alone is in sync; the leader.

        What is written from now on, until the followers are back, is on the leader only.
        """
        found = self._partition(topic, partition)
        for number in self._followers(found):
            self.stop_broker(number)
        self.wait_in_sync(topic, partition, [found.leader_id])
        return int(found.leader_id)

    def elect_unclean(self, topic: str, partition: int = 0) -> int:
        """Kill the leader, start the followers, make one of them the leader; the new leader.

        The old leader is started again and cuts its log back to the new leader's.
        """
        found = self._partition(topic, partition)
        followers = self._followers(found)
        self.kill(found.leader_id)
        self._start(followers)

        def elected() -> bool:
            self._elect(topic, partition)
            return self.leader_of(topic, partition) in followers

        wait_until(elected, f"{topic}-{partition}: no unclean leader", 60)
        leader = self.leader_of(topic, partition)
        self.start_broker(found.leader_id)
        self.wait_in_sync(topic, partition, found.replica_nodes)
        assert leader is not None
        return leader

    def unclean_election(
        self, topic: str, partition: int = 0, *, while_alone: Callable[[], object]
    ) -> int:
        """Lose acknowledged records: all that `while_alone` writes; the new leader."""
        self.isolate_leader(topic, partition)
        while_alone()
        return self.elect_unclean(topic, partition)

    def _start(self, numbers: Iterable[int]) -> None:
        wanted = set(numbers)
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda number: self.brokers[number].start(), wanted))
        wait_until(lambda: wanted <= self._alive(), f"brokers {wanted} not registered", 60)

    def _alive(self) -> set[int]:
        return {broker.node_id for broker in self._metadata([]).brokers}

    def _partition(self, topic: str, partition: int) -> Any:
        found = self._metadata([topic]).topics[0].partitions
        return next(p for p in found if p.partition_index == partition)

    def _metadata(self, topics: list[str]) -> Any:
        named = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        return self._ask(MetadataRequest(topics=named, allow_auto_topic_creation=False))

    def _elect(self, topic: str, partition: int) -> None:
        wanted = ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])
        self._ask(
            ElectLeadersRequest(
                election_type=ElectionType.UNCLEAN, topic_partitions=[wanted], timeout_ms=5000
            )
        )

    def _ask(self, request: Any) -> Any:
        """Ask broker 1, not whichever the client would choose: others may be down."""
        with self.admin() as admin:
            return admin._manager.run(admin._manager.send, request, _CONTROLLER)

    def _followers(self, found: Any) -> list[int]:
        if _CONTROLLER in found.replica_nodes or found.leader_id < 0:
            raise ValueError(f"needs a leader, and no replica on broker {_CONTROLLER}: {found}")
        return [number for number in found.replica_nodes if number != found.leader_id]
