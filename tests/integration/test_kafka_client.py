"""What only the real client can show: its requests, internal topics, silence."""

import pytest

from tideline.errors import ServiceAway
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import KafkaSettings


@pytest.fixture
def cluster(broker):
    settings = KafkaSettings("k", {"bootstrap.servers": broker.bootstrap_servers})
    with KafkaCluster(settings) as found:
        yield found


def test_a_topic_s_id_is_the_broker_s(harness, cluster):
    """As Kafka's own tools print it."""
    name = harness.create(partitions=1)
    assert cluster.observe([name], {}).topic(name).topic_id == harness.topic_id()


def test_a_look_costs_one_request_per_leader_and_kind(harness, cluster):
    """Two Metadata, three ListOffsets, one OffsetsForLeaderEpoch, however many partitions."""
    name = harness.create(partitions=30)
    cluster.observe([name], {})
    before = cluster.requests
    cluster.observe([name], {(name, p): 0 for p in range(30)})
    assert cluster.requests - before == 6


def test_a_pattern_matches_whole_names(harness, cluster):
    """`orders` must not drag in `orders-archive`, and internal topics stay out."""
    harness.create("a", partitions=1)
    harness.create("a-archive", partitions=1)
    assert cluster.topics_matching(harness.topic("a")) == [harness.topic("a")]
    assert not [t for t in cluster.topics_matching(".*") if t.startswith("__")]


def test_an_unreachable_broker_is_away_and_nothing_else():
    """No verdict about any topic comes from silence."""
    settings = KafkaSettings(
        "k", {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": 1500}
    )
    with KafkaCluster(settings) as cluster, pytest.raises(ServiceAway, match=r"127\.0\.0\.1:1"):
        cluster.observe(["orders"], {})
