"""What batch headers of a real log say, and what the look costs."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from kafka import KafkaProducer

from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import KafkaSettings
from tideline.model.offsets import OffsetRange, union

TRANSACTIONS = 400


@pytest.fixture
def cluster(broker):
    settings = KafkaSettings("k", {"bootstrap.servers": broker.bootstrap_servers})
    with KafkaCluster(settings) as found:
        yield found


def examined(cluster, place, *missing, isolation_level="read_committed"):
    gaps = tuple(OffsetRange(*m) for m in missing)
    found = cluster.examine({place: gaps}, isolation_level)[place]
    return [(g.offsets.start_offset, g.offsets.end_offset, g.reason) for g in found]


def test_markers_aborted_and_plain_records_are_told_apart(harness, cluster):
    """Offsets 0-2 committed, 3 marker, 4-6 aborted, 7 marker, 8-10 plain."""
    place = (harness.create(partitions=1), 0)
    harness.transactions((b"yes", 3, True), (b"no", 3, False))
    harness.send(3)
    assert examined(cluster, place, (0, 11)) == [
        (0, 3, "record"),
        (3, 4, "marker"),
        (4, 7, "aborted"),
        (7, 8, "marker"),
        (8, 11, "record"),
    ]
    uncommitted = examined(cluster, place, (3, 8), isolation_level="read_uncommitted")
    assert uncommitted == [(3, 4, "marker"), (4, 7, "record"), (7, 8, "marker")]


def test_what_is_gone_from_the_log_is_no_evidence(harness, cluster):
    """Below the log start nobody can look."""
    place = (harness.create(partitions=1), 0)
    harness.send(10)
    harness.delete_records(before=6)
    assert examined(cluster, place, (4, 8)) == [(4, 6, "expired"), (6, 8, "record")]


def test_many_small_gaps_cost_one_pass(harness, cluster):
    """A marker after every transaction: the steps grow, the requests do not."""
    name = harness.create(partitions=1)
    harness.transactions(*[(b"x" * 100, 1, True)] * TRANSACTIONS)
    markers = tuple(OffsetRange(n * 2 + 1, n * 2 + 2) for n in range(TRANSACTIONS))
    cluster.examine({(name, 0): markers[:1]}, "read_committed")
    before, began = cluster.requests, time.monotonic()
    found = cluster.examine({(name, 0): markers}, "read_committed")[(name, 0)]
    assert union(g.offsets for g in found) == union(markers)
    assert {g.reason for g in found} == {"marker"}
    requests, seconds = cluster.requests - before, time.monotonic() - began
    print(f"{TRANSACTIONS} gaps: {requests} requests, {seconds:.2f} s")
    assert requests <= 5  # metadata, log start, and three steps of 64 KiB, 256 KiB, ...


def test_a_lonely_gap_is_picked_out(harness, cluster):
    """However long the log: one small step."""
    name = harness.create(partitions=1)
    harness.send(20_000, value=b"x" * 200)
    harness.transactions((b"x", 1, True))
    before = cluster.requests
    assert examined(cluster, (name, 0), (20_001, 20_002)) == [(20_001, 20_002, "marker")]
    assert cluster.requests - before == 3


def test_records_tell_when_they_were_written(harness, cluster):
    """All partitions of a leader in one request; nothing there, nothing known."""
    name = harness.create(partitions=3, **{"retention.ms": "-1"})
    then = datetime.now(UTC) - timedelta(days=3)
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
    producer.send(name, b"old", partition=0, timestamp_ms=round(then.timestamp() * 1000))
    producer.close()
    harness.send(5, partition=1)
    found = cluster.written_at({(name, 0): 0, (name, 1): 4, (name, 2): 0})
    assert abs(found[name, 0] - then) < timedelta(milliseconds=2)
    assert timedelta(0) <= datetime.now(UTC) - found[name, 1] < timedelta(minutes=1)
    assert found[name, 2] is None


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, 7 * 24 * 3600 * 1000),
        ({"retention.ms": "5000"}, 5000),
        ({"retention.ms": "-1"}, None),
        ({"cleanup.policy": "compact"}, None),
        ({"cleanup.policy": "compact,delete", "retention.ms": "5000"}, 5000),
    ],
)
def test_the_time_that_a_topic_keeps_records(harness, cluster, config, expected):
    """None where time deletes nothing."""
    name = harness.create(partitions=1, **config)
    assert cluster.retention_ms([name]) == {name: expected}
