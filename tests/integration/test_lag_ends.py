"""Where topics end, as the watch of lags asks it: few requests, however many topics."""

import time
from datetime import UTC, datetime, timedelta

from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import kafka_settings


def test_a_few_requests_tell_the_ends_of_many_topics(harness):
    """Open transactions end for who reads what is committed; an age finds the first young one."""
    names = [harness.create(f"t{n}", partitions=2) for n in range(12)]
    harness.send(5, "t0", partition=1)
    old = datetime.now(UTC) - timedelta(hours=1)
    harness.send_at(old, old, datetime.now(UTC), suffix="t1")
    harness.send_at(old, suffix="t2")
    harness.transactions((b"x", 3, True), suffix="t3")
    topics = dict.fromkeys(names, "read_committed") | {
        names[4]: "read_uncommitted",
        "no": "read_committed",
    }
    with KafkaCluster(kafka_settings(harness.connection)) as cluster:
        found = cluster.ends(topics, {60: set(names)})
        assert cluster.requests == 4
        assert set(found.ends) == set(names)
        assert {name: found.ids[name] for name in names} == cluster.topic_ids("|".join(names))
        assert found.ends[names[0]] == {0: 0, 1: 5}
        assert found.ends[names[3]] == {0: 4, 1: 0}
        assert found.young[60][names[1]] == {0: 2, 1: 0}
        assert found.young[60][names[2]] == {0: 1, 1: 0}
        assert cluster.ends({}, {}).ends == {}
        began = time.monotonic()
        cluster.ends(topics, {})
        assert time.monotonic() - began < 5
