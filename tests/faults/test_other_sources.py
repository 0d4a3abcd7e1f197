"""Row 25: another cluster halts; group offsets and clocks have no effect."""

import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from devstack.broker import Broker
from devstack.process import wait_until
from tests.faults.disk import started
from tests.faults.recorder import Recorder
from tests.faults.trial import LANDED, Trial
from tests.real import World, spans, table_rows

GROUP = "orders-landed"
EXPIRES_SOON = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
YEAR_2100_MS, YEAR_1970_MS = 4_102_444_800_000, 1


@pytest.mark.slow
def test_another_cluster(trial, tmp_path):
    """Detection: the cluster id; the same names on other brokers are other topics."""
    trial.follow()
    trial.lands()
    trial.send(20)
    with started(Broker(tmp_path / "other")) as other:
        elsewhere = World(other, tmp_path, trial.world.name)
        elsewhere.create(partitions=1)
        Recorder(other.bootstrap_servers).send(trial.topic, LANDED * 3)
        trial.halts("cluster_changed")
        assert trial.is_untouched
        trial.judge(25, "cluster swapped")
    trial.world.connect(trial.world.broker.bootstrap_servers)
    assert spans(trial.run()) == [(0, LANDED, LANDED + 20)]


def reset(admin, group, place):
    admin.alter_group_offsets(group, {place: OffsetAndMetadata(0, "", None)})


def push_ahead(admin, group, place):
    admin.alter_group_offsets(group, {place: OffsetAndMetadata(10_000, "", None)})


def delete(admin, group, place):
    admin.delete_groups([group])


def expire(admin, group, place):
    def is_gone():
        found = admin.list_group_offsets({group: [place]})[group].get(place)
        return found is None or found.offset < 0

    wait_until(is_gone, "the group's offsets do not expire", 150, 1)


def committed(trial):
    """The group's next offset, as a lag tool sees it."""
    place = TopicPartition(trial.topic, 0)
    with trial.world.admin() as admin:
        return admin.list_group_offsets({GROUP: [place]})[GROUP][place].offset


def goes_on(trial, happens, fault):
    """Positions are the ledger's; the group is told again afterwards."""
    kafka = {"topics": [trial.topic], "commit_group": GROUP}
    trial.follow(kafka=kafka)
    trial.lands()
    assert committed(trial) == LANDED
    trial.send(20)
    with trial.world.admin() as admin:
        happens(admin, GROUP, TopicPartition(trial.topic, 0))
    assert spans(trial.run()) == [(0, LANDED, LANDED + 20)]
    assert committed(trial) == LANDED + 20
    trial.assert_exact()
    trial.judge(25, fault)


@pytest.mark.slow
@pytest.mark.parametrize("happens", [reset, push_ahead, delete])
def test_group_offsets_changed(trial, happens):
    """Nothing: the ledger's positions decide, the group is only told."""
    goes_on(trial, happens, f"group offsets: {happens.__name__.replace('_', ' ')}")


@pytest.mark.slow
def test_group_offsets_expired(tmp_path, spark, report):
    """Nothing: the ledger's positions decide, the group is only told."""
    with started(Broker(tmp_path / "kafka", settings=EXPIRES_SOON)) as broker:
        trial = Trial(World(broker, tmp_path, "expired"), spark, report)
        goes_on(trial, expire, "group offsets: expired")


@pytest.mark.slow
def test_clocks_that_jump(trial):
    """Nothing: ranges are offsets, so records of 1970 and of 2100 are read in their order."""
    kept = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
    trial.follow(config=kept)
    trial.lands()
    for timestamp_ms in (YEAR_2100_MS, YEAR_1970_MS, YEAR_2100_MS):
        trial.send(10, timestamp_ms=timestamp_ms)
        trial.run()
    trial.assert_exact()
    years = [at.year for _, at in table_rows(trial.stream, "offset", "timestamp")]
    assert (years.count(1970), years.count(2100)) == (10, 20)
    trial.judge(25, "producers' clocks jump")
