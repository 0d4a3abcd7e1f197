"""The fault proxy's bad links, and three brokers that lose what they have acknowledged."""

import time

import pytest
from kafka.protocol.api_key import ApiKey

from devstack.process import free_ports, is_listening
from tests.faults import rules
from tests.faults.cluster import ThreeBrokers
from tests.faults.looks import CALLS, TOPIC, assert_unharmed, look, send, settings
from tests.faults.proxy import KafkaProxy
from tideline.errors import ServiceAway
from tideline.kafka.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("call", CALLS)
def test_answers_are_late(proxy, cluster, call):
    """By as much as the rule says."""
    look(cluster)
    rule = proxy.add(rules.delay(call, 0.3, times=1))
    began = time.monotonic()
    assert_unharmed(look(cluster))
    assert time.monotonic() - began >= 0.3
    assert rule.applied == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", [rules.cut, rules.lose_answer, rules.mute])
def test_a_connection_fails_once(proxy, cluster, call, fault):
    """The adapter connects anew and sees all of it."""
    look(cluster)
    rule = proxy.add(fault(call, times=1))
    assert_unharmed(look(cluster))
    assert rule.applied == 1


@pytest.mark.parametrize("fault", [rules.cut, rules.lose_answer, rules.mute])
def test_a_connection_fails_for_good(proxy, cluster, impatient, fault):
    """At every request; the rule's removal is the end of it."""
    with proxy.applying(fault()) as rule, pytest.raises(ServiceAway):
        look(impatient)
    assert rule.applied >= 2
    assert_unharmed(look(cluster))


def test_a_mute_connection_stays_open(proxy, impatient):
    """Half open: only the client's own clock ends the wait."""
    look(impatient)
    proxy.add(rules.mute(ApiKey.ListOffsets))
    with pytest.raises(ServiceAway, match="TimedOut"):
        look(impatient)
    proxy.clear()
    assert_unharmed(look(impatient))


@pytest.mark.parametrize(("fault", "committed"), [(rules.cut, None), (rules.lose_answer, 7)])
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
