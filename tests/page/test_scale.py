"""The page's API with a thousand streams and with ten thousand partitions; prints its table."""

import json
import statistics
import time
from dataclasses import replace

import httpx
import pytest

from devstack.airflow_services import EmbeddedAirflow
from devstack.broker import Broker
from devstack.harness import StreamHarness
from devstack.process import wait_until
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import kafka_settings
from tideline.model.head import PartitionPosition
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.page.sources import Sources
from tideline.wiring import open_ledger

pytestmark = pytest.mark.slow
STREAMS = 1000
PARTITIONS = 10_000
ROUNDS = 15


@pytest.fixture(scope="module")
def wide_broker(tmp_path_factory):
    """A broker with a topic of ten thousand partitions."""
    broker = Broker(tmp_path_factory.mktemp("kafka"), heap_mb=1536).start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def world(wide_broker, tmp_path_factory):
    """Stream files and ledgers: a thousand small ones, and a wide one."""
    folder = tmp_path_factory.mktemp("world")
    harness = StreamHarness(wide_broker, folder, "scale")
    harness.create("small", partitions=1)
    wide = harness.create("wide", partitions=PARTITIONS // 2)  # no more in one request
    with harness.admin() as admin:
        admin.create_partitions({wide: PARTITIONS})
    for number in range(STREAMS):
        write_ledger(
            harness.stream(["small"], name=f"small-{number:04}", table=table(folder, number)), 1
        )
    write_ledger(harness.stream(["wide"], name="wide", table=table(folder, "wide")), PARTITIONS)
    return harness


def table(folder, name):
    return {"uri": f"{folder}/lake/{name}"}


identities = {}


def write_ledger(stream, partitions):
    topic = stream.kafka.topics[0]
    if topic not in identities:
        with KafkaCluster(kafka_settings(stream.kafka.connection)) as cluster:
            observed = cluster.observe([topic], {})
        identities[topic] = observed.cluster_id, observed.topics[0].topic_id
    cluster_id, topic_id = identities[topic]
    positions = tuple(PartitionPosition(topic, topic_id, 0, p, p % 7, 0) for p in range(partitions))
    coverage = Places(
        {
            PartitionIdentity(topic_id, 0, p): (OffsetRange(0, p % 7),)
            for p in range(partitions)
            if p % 7
        }
    )
    open_ledger(stream).update(
        lambda s: s.with_head(
            replace(s.head, cluster_id=cluster_id, positions=positions, coverage=coverage)
        )
    )


@pytest.fixture(scope="module")
def client(world, tmp_path_factory):
    """An administrator of a real Airflow that knows all Dags."""
    settings = {
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",  # a busy machine parses a thousand slowly
        f"AIRFLOW_CONN_{world.connection.upper()}": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": world.broker.bootstrap_servers}}
        ),
    }
    airflow = EmbeddedAirflow(tmp_path_factory.mktemp("home"), world.folder, settings).start_pages()
    try:
        answer = httpx.post(f"{airflow.url}/auth/token", json=airflow.login("admin"))
        cookies = {"_token": answer.json()["access_token"]}
        with httpx.Client(base_url=airflow.url, cookies=cookies, timeout=120) as found:
            yield found
    finally:
        airflow.stop()


def settled(client, path):
    found = []

    def is_settled():
        found.append(client.get(path))
        assert found[-1].status_code == 200, found[-1].text
        return not found[-1].json()["refreshing"]

    wait_until(is_settled, f"{path} is not settled", 180)
    return found[-1]


def timed(client, path):
    began = time.perf_counter()
    answer = client.get(path)
    assert answer.status_code == 200
    return time.perf_counter() - began, len(answer.content), answer


def test_answers_stay_small_and_quick(client):
    """Against Airflow's own list of a hundred Dags, in pairs; sizes are counted."""
    shown = settled(client, "/tideline/api/v1/streams").json()["streams"]
    assert len(shown) == STREAMS + 1
    assert all(s["status"] is not None and s["brokers"]["asked_at"] for s in shown)
    wide = settled(client, "/tideline/api/v1/streams/wide/partitions").json()
    assert (wide["total"], len(wide["partitions"])) == (PARTITIONS, 50)
    paths = {
        "a thousand streams": ("/tideline/api/v1/streams", 900_000),
        "one stream": ("/tideline/api/v1/streams/small-0001", 5_000),
        "50 of 10,000 partitions": ("/tideline/api/v1/streams/wide/partitions", 40_000),
        "that stream": ("/tideline/api/v1/streams/wide", 5_000),
    }
    for name, (path, most) in paths.items():
        ratios = []
        for _ in range(ROUNDS):
            seconds, size, _ = timed(client, path)
            plain, _, _ = timed(client, "/api/v2/dags?limit=100")
            ratios.append(seconds / plain)
        print(
            f"{name}: {size:,} B, time / Airflow's list of 100 Dags {statistics.median(ratios):.2f}"
        )
        assert size <= most


def test_the_brokers_are_asked_once_whatever_there_is_to_see(world, monkeypatch):
    """A thousand streams and ten thousand partitions: requests of one look are counted."""
    looks = []
    observe = KafkaCluster.observe

    def counted(self, topics, epochs):
        topics = set(topics)
        found = observe(self, topics, epochs)
        looks.append((len(topics), self.requests))
        return found

    monkeypatch.setattr(KafkaCluster, "observe", counted)
    sources = Sources(world.folder)
    names = sources.names()

    def is_known():
        views = sources.views(names)
        return all(v.ledger.value and v.brokers.value for v in views)

    wait_until(is_known, "not everything was asked", 180)
    for _ in range(100):
        sources.views(names)
    print("topics, requests of each look:", looks)
    assert len(looks) <= 3  # one in ten seconds, and reading the ledgers took longer
    assert all(requests <= 6 for _, requests in looks)
