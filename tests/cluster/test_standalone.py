"""A standalone cluster whose workers share nothing with the driver but the object store."""

import pytest

from devstack.spark_cluster import is_gone, python_for
from tests.cluster.cluster_case import SLOW
from tests.cluster.loaded import log_of_classes, lz4_jars
from tideline.versions import LZ4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_the_workers_can_read_nothing_of_the_driver_s(spark_cluster, private_paths):
    """Neither its temporary folders, nor its installation, nor its jars; Spark and Python only."""
    for user in spark_cluster.users:
        assert [path for path in private_paths if user.may_read(path)] == []
        assert user.may_read(python_for(spark_cluster.users))


def test_a_stream_lands_and_replays(cluster_case):
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


def test_a_backfill_beside_live(cluster_case):
    """One of them writes at a time; the other one is refused, tried again, and ends as well."""
    case = cluster_case
    case.follow(partitions=2, count=500)
    case.run("one")
    case.send(2, 300)
    window = f'[{{"topic": "{case.topic}", "partition": 0, "start_offset": 0, "end_offset": 400}}]'
    answers = case.at_once(("run", "--run-id", "two"), ("run", "--run-id", "b", "--ranges", window))
    assert [(a["lane"], a["rows"]) for a in answers] == [("live", 600), ("backfill", 400)]
    assert case.refused > 0
    case.judge(f"a backfill beside live, refused {case.refused} times")


def test_an_executor_is_killed_while_it_writes(cluster_case, spark_cluster):
    """Its task is tried again; what it left is no row."""
    case = cluster_case
    case.harness.connect(case.harness.broker.bootstrap_servers, **SLOW)
    case.follow(partitions=6, count=20_000)
    run = case.start("run", "--run-id", "one")
    case.wait_for_data(run)
    number, victim = min(spark_cluster.executors().items())
    victim.kill()
    assert case.ends_well(run)["rows"] == 120_000
    assert is_gone(victim)
    (tasks,) = spark_cluster.tasks(case.harness.name)
    assert "ExecutorLostFailure" in {task.end for task in tasks if task.executor == number}
    case.judge("an executor killed while it writes")


def test_a_zombie_of_a_speculative_task_changes_no_file(cluster_case, spark_cluster):
    """An executor is stopped, another writes in its place, the run commits, and it resumes."""
    case = cluster_case
    case.harness.connect(case.harness.broker.bootstrap_servers, **SLOW)
    case.follow(partitions=6, count=20_000)
    name = f"{case.harness.name}-speculation"
    settings = spark_cluster.settings(
        name,
        spark_speculation="true",
        spark_speculation_interval="100ms",
        spark_speculation_multiplier="1.1",
        spark_speculation_quantile="0.5",
        # Spark would end an executor that says nothing for two minutes.
        spark_network_timeout="600s",
    )
    run = case.start("run", "--run-id", "one", settings=settings)
    case.wait_for_data(run)
    with spark_cluster.stopped_executor() as (number, executor):
        assert case.ends_well(run)["rows"] == 120_000
        assert not is_gone(executor)
        added = case.added()
    now = case.objects()
    assert {path: now.get(path) for path in added} == added
    (tasks,) = spark_cluster.tasks(name)
    stood = {task.index for task in tasks if task.executor == number and not task.succeeded}
    copies = {task.index for task in tasks if task.is_speculative and task.succeeded}
    assert stood & copies, tasks
    case.judge(f"speculation, {len(copies)} copies; a zombie resumed after the commit")


def test_executors_take_our_lz4_though_spark_has_its_own(cluster_case, spark_cluster):
    """Their JVMs' own words: which jar the class is from that reads what producers compress."""
    case = cluster_case
    settings = spark_cluster.settings(case.harness.name, **log_of_classes("."))
    case.follow(partitions=2, count=0)
    case.log.compression = "lz4"
    case.send(2, 500)
    assert case.run("one", settings=settings)["rows"] == 1000
    case.judge("records compressed with lz4")
    folders = [user.folder for user in spark_cluster.users]
    assert lz4_jars(*folders) == {f"lz4-java-{LZ4}.jar"}
