"""The contract of the Kafka adapter, held against a real broker."""

from datetime import UTC, datetime, timedelta

import pytest
from kafka import KafkaProducer

from tideline.errors import ServiceAway
from tideline.kafka_io.client import KafkaCluster
from tideline.kafka_io.settings import KafkaSettings
from tideline.model.observation import UNDEFINED_EPOCH_END


@pytest.fixture
def cluster(broker):
    settings = KafkaSettings("k", {"bootstrap.servers": broker.bootstrap_servers})
    with KafkaCluster(settings) as found:
        yield found


def only_partition(cluster, name, epochs=None):
    return cluster.observe([name], epochs or {}).topics[0].partitions[0]


def test_a_look_gives_ids_offsets_and_epochs(harness, cluster):
    """Topic id, log start, high watermark, last stable offset, leader epoch, cluster id."""
    name = harness.create(partitions=2)
    harness.send(10)
    seen = cluster.observe([name], {})
    topic = seen.topic(name)
    assert topic.topic_id == harness.topic_id()
    assert len(seen.cluster_id) == 22
    first, second = topic.partitions
    assert (first.log_start_offset, first.high_watermark, first.last_stable_offset) == (0, 10, 10)
    assert (first.leader_epoch, second.high_watermark) == (0, 0)


def test_a_look_costs_one_request_per_leader_and_kind(harness, cluster):
    """Two Metadata, three ListOffsets, one OffsetsForLeaderEpoch, however many partitions."""
    name = harness.create(partitions=30)
    cluster.observe([name], {})
    before = cluster.requests
    cluster.observe([name], {(name, p): 0 for p in range(30)})
    assert cluster.requests - before == 6


def test_an_epoch_s_end_is_where_its_records_end(harness, cluster):
    """The known epoch reaches the log's end; an epoch from the future is undefined."""
    name = harness.create(partitions=1)
    harness.send(10)
    assert only_partition(cluster, name, {(name, 0): 0}).epoch_end_offset == 10
    future = only_partition(cluster, name, {(name, 0): 99})
    assert future.epoch_end_offset == UNDEFINED_EPOCH_END


def test_deleted_records_move_the_log_start(harness, cluster):
    """What retention does, on demand."""
    name = harness.create(partitions=1)
    harness.send(10)
    harness.delete_records(before=4)
    assert only_partition(cluster, name).log_start_offset == 4


def test_an_open_transaction_holds_the_last_stable_offset(harness, cluster):
    """The isolation level reaches ListOffsets (older clients ignored it)."""
    name = harness.create(partitions=1)
    producer = KafkaProducer(
        bootstrap_servers=harness.broker.bootstrap_servers, transactional_id=harness.name
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(name, b"x", partition=0).get(timeout=30)
    seen = only_partition(cluster, name)
    assert (seen.high_watermark, seen.last_stable_offset) == (1, 0)
    producer.abort_transaction()
    producer.close()


def test_a_missing_topic_has_no_id(harness, cluster):
    """The cluster said so, twice."""
    topic = cluster.observe([harness.topic("nowhere")], {}).topics[0]
    assert (topic.topic_id, topic.fault, topic.refusal) == (None, None, None)


def test_a_recreated_topic_has_another_id(harness, cluster):
    """The name alone would not tell."""
    name = harness.create(partitions=1)
    first = cluster.observe([name], {}).topics[0].topic_id
    harness.delete()
    harness.create(partitions=1)
    assert cluster.observe([name], {}).topics[0].topic_id not in (first, None)


def test_times_become_offsets(harness, cluster):
    """First record at or after; None where no record is that young."""
    name = harness.create(partitions=2)
    harness.send(3)
    places = [(name, 0), (name, 1)]
    hour = timedelta(hours=1)
    found = cluster.offsets_at(datetime.now(UTC) - hour, places)
    assert (found[(name, 0)].offset, found[(name, 1)]) == (0, None)
    written = datetime.fromtimestamp(found[(name, 0)].timestamp_ms / 1000, UTC)
    assert datetime.now(UTC) - timedelta(minutes=1) < written <= datetime.now(UTC)
    assert cluster.offsets_at(written, [(name, 0)])[(name, 0)].offset == 0
    assert set(cluster.offsets_at(datetime.now(UTC) + hour, places).values()) == {None}


def test_a_group_is_told_and_asked_next_offsets(harness, cluster):
    """A committed offset is the next to read, not the last one read."""
    name = harness.create(partitions=2)
    places = [(name, 0), (name, 1)]
    cluster.commit_group(harness.name, {(name, 0): 7})
    assert cluster.committed_offsets(harness.name, places) == {(name, 0): 7, (name, 1): None}


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
