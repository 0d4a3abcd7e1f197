"""The fault proxy and the three brokers do what they say, as the Kafka adapter sees it."""

import time
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.protocol.api_key import ApiKey

from tests.faults import proxy as faults
from tests.faults.cluster import ThreeBrokers
from tests.faults.proxy import KafkaProxy, proxied_broker
from tideline.adapters.kafka_client import KafkaCluster
from tideline.adapters.kafka_settings import KafkaSettings
from tideline.embedded.process import free_ports, is_listening
from tideline.errors import ServiceAway

TOPIC = "orders"
EPOCHS = {(TOPIC, 0): 0}
CALLS = [ApiKey.Metadata, ApiKey.ListOffsets, ApiKey.OffsetForLeaderEpoch]


def send(bootstrap_servers, count):
    """Acknowledged by every in-sync replica, or an error."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
    sent = [producer.send(TOPIC, b"x", partition=0) for _ in range(count)]
    offsets = [future.get(timeout=30).offset for future in sent]
    producer.close()
    return offsets


def settings(bootstrap_servers, patience_ms):
    return KafkaSettings(
        "k",
        {
            "bootstrap.servers": bootstrap_servers,
            "default.api.timeout.ms": patience_ms,
            "request.timeout.ms": 500,
        },
    )


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    with proxied_broker(tmp_path_factory.mktemp("proxied")) as (broker, proxy):
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        admin.create_topics({TOPIC: {"num_partitions": 2}}, wait_for_metadata=True)
        admin.close()
        send(broker.bootstrap_servers, 10)
        yield broker, proxy


@pytest.fixture
def proxy(proxied):
    yield proxied[1]
    proxied[1].clear()


@pytest.fixture
def cluster(proxy):
    with KafkaCluster(settings(proxy.bootstrap_servers, 20_000)) as found:
        yield found


@pytest.fixture
def impatient(proxy):
    with KafkaCluster(settings(proxy.bootstrap_servers, 1000)) as found:
        yield found


def look(cluster):
    """The topic as it is seen through the proxy."""
    return cluster.observe([TOPIC], EPOCHS).topics[0]


def assert_unharmed(topic):
    assert topic.answered
    assert [p.high_watermark for p in topic.partitions] == [10, 0]
    assert topic.partitions[0].epoch_end_offset == 10


def test_everything_goes_through_the_proxy_or_past_it(proxied, proxy, cluster):
    """Where a client bootstraps decides for all its connections."""
    before = dict(proxy.requests)
    send(proxied[0].bootstrap_servers, 0)
    with KafkaCluster(settings(proxied[0].bootstrap_servers, 20_000)) as past:
        assert_unharmed(look(past))
    assert dict(proxy.requests) == before
    assert_unharmed(look(cluster))
    assert all(proxy.requests[call] > before.get(call, 0) for call in CALLS)


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
    with proxy.applying(faults.offsets_error(TOPIC, 0, code)) as rule:
        first, second = look(cluster).partitions
    assert (first.fault, second.fault) == (fault, None)
    assert rule.applied == 3
    assert_unharmed(look(cluster))


def test_a_stale_leader_answers_with_an_old_epoch(proxy, cluster):
    """The offsets stay what they are."""
    proxy.add(faults.offsets_epoch(TOPIC, 0, 7))
    assert look(cluster).partitions[0].leader_epoch == 7
    proxy.add(faults.offsets_epoch(TOPIC, 0, 6, times=3))
    assert look(cluster).partitions[0].leader_epoch == 6
    assert_unharmed(look(cluster))
    assert look(cluster).partitions[0].leader_epoch == 7


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
    rule = proxy.add(faults.epoch_error(TOPIC, 0, code, times=1))
    partition = look(cluster).partitions[0]
    assert fault in (partition.fault, partition.refusal)
    assert rule.applied == 1
    assert_unharmed(look(cluster))


def test_another_topic_id_is_shown(proxy, cluster):
    """In every answer, or from the second look on."""
    look(cluster)
    other = str(uuid4())
    with proxy.applying(faults.topic_id(TOPIC, other)):
        assert look(cluster).topic_id == other
    with proxy.applying(faults.topic_id(TOPIC, other, skip=1)) as rule:
        assert look(cluster).fault == "topic id changed while it was looked at"
    assert rule.applied == 1


@pytest.mark.parametrize("code", [3, 100])
def test_a_topic_is_missing(proxy, cluster, code):
    """Twice is missing, once is a doubt."""
    look(cluster)
    with proxy.applying(faults.topic_error(TOPIC, code)):
        topic = look(cluster)
    assert (topic.topic_id, topic.fault, topic.refusal) == (None, None, None)
    with proxy.applying(faults.topic_error(TOPIC, code, times=1)):
        assert look(cluster).fault is not None


def test_a_partition_has_no_leader(proxy, cluster):
    """With an error, and without one."""
    with proxy.applying(faults.partition_metadata(TOPIC, 1)):
        first, second = look(cluster).partitions
    assert (first.fault, second.fault) == (None, "LeaderNotAvailableError")
    with proxy.applying(faults.partition_metadata(TOPIC, 1, code=0)):
        assert look(cluster).partitions[1].fault == "no leader"


def test_any_field_may_be_changed(proxy, cluster):
    """By a function of the test's own."""

    def elsewhere(response):
        response.cluster_id = "x" * 22

    proxy.add(faults.rewrite(ApiKey.Metadata, elsewhere))
    assert cluster.observe([TOPIC], {}).cluster_id == "x" * 22


def test_a_rule_that_fails_is_told(proxy, cluster, impatient):
    """Or a test would take its own mistake for a broker that is away."""
    proxy.add(faults.rewrite(ApiKey.ListOffsets, lambda response: response.no_such_field))
    with pytest.raises(ServiceAway):
        look(impatient)
    with pytest.raises(AttributeError, match="no_such_field"):
        proxy.clear()
    assert_unharmed(look(cluster))


def test_a_topic_that_is_not_asked_for_costs_no_application(proxy, cluster):
    """Otherwise `times` would be used up by answers that have nothing to do with it."""
    rule = proxy.add(faults.offsets_error("payments", 0, 5))
    assert_unharmed(look(cluster))
    assert rule.applied == 0


@pytest.mark.parametrize("call", CALLS)
def test_answers_are_late(proxy, cluster, call):
    """By as much as the rule says."""
    look(cluster)
    rule = proxy.add(faults.delay(call, 0.3, times=1))
    began = time.monotonic()
    assert_unharmed(look(cluster))
    assert time.monotonic() - began >= 0.3
    assert rule.applied == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", [faults.cut, faults.lose_answer, faults.mute])
def test_a_connection_fails_once(proxy, cluster, call, fault):
    """The adapter connects anew and sees all of it."""
    look(cluster)
    rule = proxy.add(fault(call, times=1))
    assert_unharmed(look(cluster))
    assert rule.applied == 1


@pytest.mark.parametrize("fault", [faults.cut, faults.lose_answer, faults.mute])
def test_a_connection_fails_for_good(proxy, cluster, impatient, fault):
    """At every request; the rule's removal is the end of it."""
    with proxy.applying(fault()) as rule, pytest.raises(ServiceAway):
        look(impatient)
    assert rule.applied >= 2
    assert_unharmed(look(cluster))


def test_a_mute_connection_stays_open(proxy, impatient):
    """Half open: only the client's own clock ends the wait."""
    look(impatient)
    proxy.add(faults.mute(ApiKey.ListOffsets))
    with pytest.raises(ServiceAway, match="TimedOut"):
        look(impatient)
    proxy.clear()
    assert_unharmed(look(impatient))


@pytest.mark.parametrize(("fault", "committed"), [(faults.cut, None), (faults.lose_answer, 7)])
def test_a_lost_request_is_not_a_lost_answer(proxied, proxy, impatient, fault, committed):
    """What the broker has done stays done."""
    group = fault.__name__
    place = (TOPIC, 0)
    with proxy.applying(fault(ApiKey.OffsetCommit)) as rule, pytest.raises(ServiceAway):
        impatient.commit_group(group, {place: 7})
    assert rule.applied
    with KafkaCluster(settings(proxied[0].bootstrap_servers, 20_000)) as past:
        assert past.committed_offsets(group, [place]) == {place: committed}


def test_the_broker_is_away_and_comes_back(proxy, cluster, impatient):
    """Connections are cut and refused, then taken again at the same address."""
    look(cluster)
    proxy.refuse()
    assert not is_listening(proxy.port)
    with pytest.raises(ServiceAway):
        look(impatient)
    proxy.restore()
    assert_unharmed(look(cluster))


def test_nothing_is_left_running():
    """No thread, no port; a broker that is not there is not the proxy's error."""
    with KafkaProxy(free_ports(1)[0]) as proxy:
        assert is_listening(proxy.port)
    assert not is_listening(proxy.port)
    assert not proxy._thread.is_alive()


@pytest.mark.slow
def test_an_unclean_election_loses_acknowledged_records(tmp_path):
    """Same topic id, another leader; the known epoch ends below what was acknowledged."""
    with (
        ThreeBrokers(tmp_path) as brokers,
        KafkaCluster(settings(brokers.bootstrap_servers, 20_000)) as cluster,
    ):
        brokers.create_topic(TOPIC)
        assert brokers.leader_of(TOPIC) == 2
        send(brokers.bootstrap_servers, 10)
        known = look(cluster)
        lost = []

        def write():
            lost.extend(send(brokers.bootstrap_servers, 20))
            assert look(cluster).partitions[0].epoch_end_offset == 30

        assert brokers.unclean_election(TOPIC, while_alone=write) == 3
        assert lost == list(range(10, 30))
        send(brokers.bootstrap_servers, 50)
        seen = look(cluster)
        assert seen.topic_id == known.topic_id
        assert seen.partitions[0].high_watermark == 60
        assert seen.partitions[0].leader_epoch > known.partitions[0].leader_epoch
        assert seen.partitions[0].epoch_end_offset == 10
        assert brokers.leader_of(TOPIC) == 3
        assert brokers.in_sync(TOPIC) == {2, 3}
