"""A standalone cluster whose workers share nothing with the driver but the object store."""

import os
import signal

import pytest

from devstack.spark_cluster import python_for
from tests.cluster.cluster_case import SLOW, alive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_the_workers_can_read_nothing_of_the_driver_s(spark_cluster, private_paths):
    """Neither its temporary folders, nor its installation, nor its jars; Spark and Python only."""
    for user in spark_cluster.users:
        assert [path for path in private_paths if user.may_read(path)] == []
        assert user.may_read(python_for(spark_cluster.users))


def test_a_stream_lands_replays_and_backfills_beside_live(cluster_case):
    """R2, R4: one copy, whatever is run again."""
    case = cluster_case
    case.follow(partitions=2, count=500)
    first = case.run("one")
    assert (first["status"], first["rows"]) == ("done", 1000)
    case.judge("land")
    version = case.table().version()
    again = case.run("one")
    assert again["rows"] == 1000
    assert case.table().version() > version
    case.judge("replay")
    case.send(2, 300)
    window = f'[{{"topic": "{case.topic}", "partition": 0, "start_offset": 0, "end_offset": 400}}]'
    answers = case.at_once(("run", "--run-id", "two"), ("run", "--run-id", "b", "--ranges", window))
    assert [(a["lane"], a["rows"]) for a in answers] == [("live", 600), ("backfill", 400)]
    case.judge("a backfill beside live")


def test_an_executor_is_killed_while_it_writes(cluster_case, spark_cluster):
    """Its task is tried again; what it left is no row."""
    case = cluster_case
    case.harness.connect(case.harness.broker.bootstrap_servers, **SLOW)
    case.follow(partitions=6, count=20_000)
    run = case.start("run", "--run-id", "one")
    case.wait_for_data(run)
    victim = spark_cluster.executors()[0]
    os.kill(victim, signal.SIGKILL)
    assert case.ends_well(run)["rows"] == 120_000
    assert not alive(victim)
    case.judge("an executor killed while it writes")


def test_a_zombie_of_a_speculative_task_changes_no_file(cluster_case, spark_cluster):
    """An executor is stopped, others write in its place, the run commits, and it resumes."""
    case = cluster_case
    case.harness.connect(case.harness.broker.bootstrap_servers, **SLOW)
    case.follow(partitions=6, count=20_000)
    settings = spark_cluster.settings(
        "speculation",
        spark_speculation="true",
        spark_speculation_interval="100ms",
        spark_speculation_multiplier="1.1",
        spark_speculation_quantile="0.5",
    )
    run = case.start("run", "--run-id", "one", settings=settings)
    case.wait_for_data(run)
    with spark_cluster.stopped_executor() as zombie:
        assert case.ends_well(run)["rows"] == 120_000
        assert alive(zombie)
        added = case.added()
    now = case.objects()
    assert {path: now.get(path) for path in added} == added
    case.judge("speculation, a zombie resumed after the commit")
