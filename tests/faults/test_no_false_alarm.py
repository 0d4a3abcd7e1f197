"""Rows 13-14: what changes without a loss lets every run go on."""

import pytest

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.faults.cluster import ThreeBrokers
from tests.faults.disk import QUICK_RESTART, kill, started
from tests.faults.fault_case import LANDED, FaultCase
from tests.worlds.spark_doubles import HookedSpark
from tests.worlds.streams import head, spans

RESTARTS = 20


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_restarts_without_loss(tmp_path, spark, report):
    """Detection: epochs change, but the known one still reaches the position."""
    with started(Broker(tmp_path / "kafka", settings=QUICK_RESTART)) as broker:
        fault_case = FaultCase(StreamHarness(broker, tmp_path, "restarts"), spark, report)
        fault_case.follow()
        fault_case.lands()
        epochs = set()
        for number in range(RESTARTS):
            fault_case.send(10)
            if number % 2:
                broker.stop()
            else:
                kill(broker)
            broker.start()  # its port answers; whether it is ready is the run's business
            epochs |= {r.leader_epoch for r in fault_case.run().plan.ranges}
            assert head(fault_case.stream) == {(fault_case.topic, 0): LANDED + 10 * (number + 1)}
        assert len(epochs) == RESTARTS
        fault_case.assert_exact()
        fault_case.judge(13, f"{RESTARTS} clean restarts and kill -9, in turn, without loss")


@pytest.mark.slow
def test_leader_failover_without_loss(tmp_path, spark, report):
    """Detection: passing while there is no leader; then the known epoch reaches the position."""
    with ThreeBrokers(tmp_path / "kafka") as brokers:
        fault_case = FaultCase(StreamHarness(brokers, tmp_path, "failover"), spark, report)
        brokers.create_topic(fault_case.topic)
        fault_case.stream = fault_case.harness.stream()
        fault_case.lands()
        for _ in range(2):
            fault_case.send(20)
            leader = brokers.leader_of(fault_case.topic)
            brokers.kill(leader)
            fault_case.run()
            assert brokers.leader_of(fault_case.topic) != leader
            brokers.start_broker(leader)
            brokers.wait_in_sync(fault_case.topic, 0, (2, 3))
        fault_case.assert_exact()
        fault_case.judge(13, "leader killed, the follower takes over")


def grow(fault_case):
    """Two partitions more, with records in the last one."""
    with fault_case.harness.admin() as admin:
        admin.create_partitions({fault_case.topic: 3})
        admin.wait_for_topics([fault_case.topic])
    fault_case.send(30, partition=2)


@pytest.mark.slow
def test_partitions_added_after_planning(fault_case):
    """R1 the frozen plan; R10 a partition that appears later starts at its log start."""
    fault_case.follow()
    fault_case.lands()
    fault_case.send(20)
    assert spans(
        fault_case.run(HookedSpark(fault_case.spark, before=lambda: grow(fault_case)))
    ) == [(0, LANDED, LANDED + 20)]
    record = fault_case.run()
    assert spans(record) == [(2, 0, 30)]
    assert {n.kind for n in record.notices} == {"new_partition"}
    assert head(fault_case.stream) == {
        (fault_case.topic, 0): LANDED + 20,
        (fault_case.topic, 1): 0,
        (fault_case.topic, 2): 30,
    }
    fault_case.assert_exact()
    fault_case.judge(14, "partitions added after planning")


@pytest.mark.slow
def test_a_new_partition_that_has_lost_records(fault_case):
    """R10: a new partition of a known topic begins at 0; the log start has passed that."""
    fault_case.follow()
    fault_case.lands()
    grow(fault_case)
    fault_case.harness.delete_records(before=10, partition=2)
    finding = fault_case.halts("retention_loss").finding
    assert (finding.partition, finding.lost_start, finding.lost_end) == (2, 0, 10)
    assert fault_case.is_untouched
    fault_case.judge(14, "partition added, and records deleted before it was first seen")
