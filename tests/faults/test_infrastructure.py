"""The fault proxy's rules change what they say, as the Kafka adapter sees it."""

from uuid import uuid4

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.protocol.api_key import ApiKey

from tests.faults import rules
from tests.faults.looks import CALLS, TOPIC, assert_unharmed, look, send, settings
from tideline.errors import ServiceAway
from tideline.kafka.kafka_cluster import KafkaCluster


def test_everything_goes_through_the_proxy_or_past_it(proxied, proxy, cluster):
    """Where a client bootstraps decides for all its connections."""
    before = dict(proxy.requests)
    send(proxied[0].bootstrap_servers, 0)
    with KafkaCluster(settings(proxied[0].bootstrap_servers, 20_000)) as past:
        assert_unharmed(look(past))
    assert dict(proxy.requests) == before
    assert_unharmed(look(cluster))
    assert all(proxy.requests[call] > before.get(call, 0) for call in CALLS)


@pytest.mark.slow
def test_records_pass_unharmed(proxy):
    """A consumer reads through it."""
    consumer = KafkaConsumer(
        bootstrap_servers=proxy.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    consumer.assign([TopicPartition(TOPIC, 0)])
    assert [next(consumer).offset for _ in range(10)] == list(range(10))
    consumer.close()
    assert proxy.requests[ApiKey.Fetch]


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (78, "OffsetNotAvailableError"),
        (6, "NotLeaderForPartitionError"),
        (5, "LeaderNotAvailableError"),
        (3, "UnknownTopicOrPartitionError"),
        (100, "UnknownTopicIdError"),
    ],
)
def test_offsets_fail_for_one_partition(proxy, cluster, code, fault):
    """And only while the rule is on."""
    with proxy.applying(rules.offsets_error(TOPIC, 0, code)) as rule:
        first, second = look(cluster).partitions
    assert (first.fault, second.fault) == (fault, None)
    assert rule.applied == 3
    assert_unharmed(look(cluster))


def test_a_stale_leader_answers_with_an_old_epoch(proxy, cluster):
    """The offsets stay what they are."""
    proxy.add(rules.offsets_epoch(TOPIC, 0, 7))
    assert look(cluster).partitions[0].leader_epoch == 7
    proxy.add(rules.offsets_epoch(TOPIC, 0, 6, times=3))
    assert look(cluster).partitions[0].leader_epoch == 6
    assert_unharmed(look(cluster))
    assert look(cluster).partitions[0].leader_epoch == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (74, "FencedLeaderEpochError"),
        (75, "UnknownLeaderEpochError"),
        (76, "UnsupportedCompressionTypeError"),
    ],
)
def test_an_epoch_s_end_is_refused(proxy, cluster, code, fault):
    """OffsetsForLeaderEpoch alone fails."""
    rule = proxy.add(rules.epoch_error(TOPIC, 0, code, times=1))
    partition = look(cluster).partitions[0]
    assert fault in (partition.fault, partition.refusal)
    assert rule.applied == 1
    assert_unharmed(look(cluster))


def test_another_topic_id_is_shown(proxy, cluster):
    """In every answer, or from the second look on."""
    look(cluster)
    other = str(uuid4())
    with proxy.applying(rules.topic_id(TOPIC, other)):
        assert look(cluster).topic_id == other
    with proxy.applying(rules.topic_id(TOPIC, other, skip=1)) as rule:
        assert look(cluster).fault == "the topic id changed during the observation"
    assert rule.applied == 1


@pytest.mark.slow
@pytest.mark.parametrize("code", [3, 100])
def test_a_topic_is_missing(proxy, cluster, code):
    """Twice is missing, once is a doubt."""
    look(cluster)
    with proxy.applying(rules.topic_error(TOPIC, code)):
        topic = look(cluster)
    assert (topic.topic_id, topic.fault, topic.refusal) == (None, None, None)
    with proxy.applying(rules.topic_error(TOPIC, code, times=1)):
        assert look(cluster).fault is not None


@pytest.mark.slow
def test_a_partition_has_no_leader(proxy, cluster):
    """With an error, and without one."""
    with proxy.applying(rules.partition_metadata(TOPIC, 1)):
        first, second = look(cluster).partitions
    assert (first.fault, second.fault) == (None, "LeaderNotAvailableError")
    with proxy.applying(rules.partition_metadata(TOPIC, 1, code=0)):
        assert look(cluster).partitions[1].fault == "no leader"


@pytest.mark.slow
def test_any_field_may_be_changed(proxy, cluster):
    """By a function of the test's own."""

    def elsewhere(response):
        response.cluster_id = "x" * 22

    proxy.add(rules.rewrite(ApiKey.Metadata, elsewhere))
    assert cluster.observe([TOPIC], {}).cluster_id == "x" * 22


@pytest.mark.slow
def test_a_rule_that_fails_is_told(proxy, cluster, impatient):
    """Or a test would take its own mistake for a broker that is away."""
    proxy.add(rules.rewrite(ApiKey.ListOffsets, lambda response: response.no_such_field))
    with pytest.raises(ServiceAway):
        look(impatient)
    with pytest.raises(AttributeError, match="no_such_field"):
        proxy.clear()
    assert_unharmed(look(cluster))


@pytest.mark.slow
def test_a_topic_that_is_not_asked_for_costs_no_application(proxy, cluster):
    """Otherwise `times` would be used up by answers that have nothing to do with it."""
    rule = proxy.add(rules.offsets_error("payments", 0, 5))
    assert_unharmed(look(cluster))
    assert rule.applied == 0
