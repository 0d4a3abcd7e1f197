"""What a landing costs beside time, in counters: they gate."""

import pytest
from deltalake import DeltaTable

from devstack.harness import StreamHarness
from tests.faults.proxy import proxied_broker

FETCH = 1
"""Kafka's api key of a fetch request."""

HEADERS = 1.05
"""Bytes that the broker may send per byte of the log: frames, and no batch twice."""


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    with proxied_broker(tmp_path_factory.mktemp("proxied")) as (broker, proxy):
        yield broker, proxy


def log_bytes(broker, topic):
    return sum(f.stat().st_size for f in broker.data.glob(f"{topic}-*/*.log"))


def test_a_range_leaves_the_broker_once(proxied, tmp_path, spark):
    """One read lands and verifies it; one commit, and a file per task."""
    broker, proxy = proxied
    harness = StreamHarness(broker, tmp_path, "costs")
    harness.create(partitions=3)
    for partition in range(3):
        harness.send(20_000, partition=partition, value=b"x" * 500)
    harness.connect(proxy.bootstrap_servers)
    stream = harness.stream()
    proxy.answered.clear()
    starts = spark.submits
    assert harness.run(stream, "one", spark).status == "done"
    assert log_bytes(broker, harness.topic()) > 30_000_000
    assert proxy.answered[FETCH] <= HEADERS * log_bytes(broker, harness.topic())
    assert spark.submits == starts + 1
    table = DeltaTable(stream.table.uri)
    assert len(table.file_uris()) == 3
    assert table.version() == 1


def test_many_short_ranges_share_tasks_and_files(proxied, tmp_path, spark):
    """Sixty partitions of ten records are no sixty files."""
    harness = StreamHarness(proxied[0], tmp_path, "short")
    harness.create(partitions=60)
    for partition in range(60):
        harness.send(10, partition=partition)
    stream = harness.stream()
    assert harness.run(stream, "one", spark).status == "done"
    assert len(DeltaTable(stream.table.uri).file_uris()) == 4
    assert harness.audit(stream)[0].clean
