"""Row 25: another cluster halts; group offsets and clocks have no effect."""

import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from devstack.broker import Broker
from devstack.harness import StreamHarness
from devstack.process import wait_until
from tests.faults.disk import started
from tests.faults.fault_case import LANDED, FaultCase
from tests.faults.recorder import Recorder
from tests.worlds.streams import spans, table_rows

GROUP = "orders-landed"
EXPIRES_SOON = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
YEAR_2100_MS, YEAR_1970_MS = 4_102_444_800_000, 1


@pytest.mark.slow
def test_another_cluster(fault_case, tmp_path):
    """Detection: the cluster id; the same names on other brokers are other topics."""
    fault_case.follow()
    fault_case.lands()
    fault_case.send(20)
    with started(Broker(tmp_path / "other")) as other:
        elsewhere = StreamHarness(other, tmp_path, fault_case.harness.name)
        elsewhere.create(partitions=1)
        Recorder(other.bootstrap_servers).send(fault_case.topic, LANDED * 3)
        fault_case.halts("cluster_changed")
        assert fault_case.is_untouched
        fault_case.judge(25, "cluster swapped")
    fault_case.harness.connect(fault_case.harness.broker.bootstrap_servers)
    assert spans(fault_case.run()) == [(0, LANDED, LANDED + 20)]


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


def committed(fault_case):
    """The group's next offset, as a lag tool sees it."""
    place = TopicPartition(fault_case.topic, 0)
    with fault_case.harness.admin() as admin:
        return admin.list_group_offsets({GROUP: [place]})[GROUP][place].offset


def goes_on(fault_case, happens, fault):
    """Positions are the ledger's; the group is told again afterwards."""
    kafka = {"topics": [fault_case.topic], "commit_group": GROUP}
    fault_case.follow(kafka=kafka)
    fault_case.lands()
    assert committed(fault_case) == LANDED
    fault_case.send(20)
    with fault_case.harness.admin() as admin:
        happens(admin, GROUP, TopicPartition(fault_case.topic, 0))
    assert spans(fault_case.run()) == [(0, LANDED, LANDED + 20)]
    assert committed(fault_case) == LANDED + 20
    fault_case.assert_exact()
    fault_case.judge(25, fault)


@pytest.mark.slow
@pytest.mark.parametrize("happens", [reset, push_ahead, delete])
def test_group_offsets_changed(fault_case, happens):
    """Nothing: the ledger's positions decide, the group is only told."""
    goes_on(fault_case, happens, f"group offsets: {happens.__name__.replace('_', ' ')}")


@pytest.mark.slow
def test_group_offsets_expired(tmp_path, spark, report):
    """Nothing: the ledger's positions decide, the group is only told."""
    with started(Broker(tmp_path / "kafka", settings=EXPIRES_SOON)) as broker:
        fault_case = FaultCase(StreamHarness(broker, tmp_path, "expired"), spark, report)
        goes_on(fault_case, expire, "group offsets: expired")


@pytest.mark.slow
def test_clocks_that_jump(fault_case):
    """Nothing: ranges are offsets, so records of 1970 and of 2100 are read in their order."""
    kept = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
    fault_case.follow(config=kept)
    fault_case.lands()
    for timestamp_ms in (YEAR_2100_MS, YEAR_1970_MS, YEAR_2100_MS):
        fault_case.send(10, timestamp_ms=timestamp_ms)
        fault_case.run()
    fault_case.assert_exact()
    years = [at.year for _, at in table_rows(fault_case.stream, "offset", "timestamp")]
    assert (years.count(1970), years.count(2100)) == (10, 20)
    fault_case.judge(25, "producers' clocks jump")
