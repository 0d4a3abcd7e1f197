"""Rows 13-14: what changes without a loss lets every run go on."""

import pytest

from devstack.broker import Broker
from tests.faults.cluster import ThreeBrokers
from tests.faults.disk import QUICK_RESTART, kill, started
from tests.faults.trial import LANDED, Meddled, Trial
from tests.real import World, head, spans

RESTARTS = 20


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_restarts_without_loss(tmp_path, spark, report):
    """Detection: epochs change, but the known one still reaches the position."""
    with started(Broker(tmp_path / "kafka", settings=QUICK_RESTART)) as broker:
        trial = Trial(World(broker, tmp_path, "restarts"), spark, report)
        trial.follow()
        trial.lands()
        epochs = set()
        for number in range(RESTARTS):
            trial.send(10)
            if number % 2:
                broker.stop()
            else:
                kill(broker)
            broker.start()  # its port answers; whether it is ready is the run's business
            epochs |= {r.leader_epoch for r in trial.run().plan.ranges}
            assert head(trial.stream) == {(trial.topic, 0): LANDED + 10 * (number + 1)}
        assert len(epochs) == RESTARTS
        trial.assert_exact()
        trial.judge(13, f"{RESTARTS} clean restarts and kill -9, in turn, without loss")


@pytest.mark.slow
def test_leader_failover_without_loss(tmp_path, spark, report):
    """Detection: passing while there is no leader; then the known epoch reaches the position."""
    with ThreeBrokers(tmp_path / "kafka") as brokers:
        trial = Trial(World(brokers, tmp_path, "failover"), spark, report)
        brokers.create_topic(trial.topic)
        trial.stream = trial.world.stream()
        trial.lands()
        for _ in range(2):
            trial.send(20)
            leader = brokers.leader_of(trial.topic)
            brokers.kill(leader)
            trial.run()
            assert brokers.leader_of(trial.topic) != leader
            brokers.start_broker(leader)
            brokers.wait_in_sync(trial.topic, 0, (2, 3))
        trial.assert_exact()
        trial.judge(13, "leader killed, the follower takes over")


def grow(trial):
    """Two partitions more, with records in the last one."""
    with trial.world.admin() as admin:
        admin.create_partitions({trial.topic: 3})
        admin.wait_for_topics([trial.topic])
    trial.send(30, partition=2)


@pytest.mark.slow
def test_partitions_added_after_planning(trial):
    """R1 the frozen plan; R10 a partition that appears later starts at its log start."""
    trial.follow()
    trial.lands()
    trial.send(20)
    assert spans(trial.run(Meddled(trial.spark, before=lambda: grow(trial)))) == [
        (0, LANDED, LANDED + 20)
    ]
    record = trial.run()
    assert spans(record) == [(2, 0, 30)]
    assert {n.kind for n in record.notices} == {"new_partition"}
    assert head(trial.stream) == {
        (trial.topic, 0): LANDED + 20,
        (trial.topic, 1): 0,
        (trial.topic, 2): 30,
    }
    trial.assert_exact()
    trial.judge(14, "partitions added after planning")


@pytest.mark.slow
def test_a_new_partition_that_has_lost_records(trial):
    """R10: a new partition of a known topic begins at 0; the log start has passed that."""
    trial.follow()
    trial.lands()
    grow(trial)
    trial.world.delete_records(before=10, partition=2)
    finding = trial.halts("retention_loss").finding
    assert (finding.partition, finding.lost_start, finding.lost_end) == (2, 0, 10)
    assert trial.is_untouched
    trial.judge(14, "partition added, and records deleted before it was first seen")
