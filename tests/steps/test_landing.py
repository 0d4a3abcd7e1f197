"""What lands, and where the next run goes on."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.worlds.memory import spans
from tests.worlds.spark_doubles import HookedSpark
from tideline.documents import dump, load
from tideline.errors import ServiceAway, StreamBusy
from tideline.model.offsets import OffsetRange, TopicPartition, overlaps, total
from tideline.model.spark_job import SparkJob, SparkResult


def test_capped_runs_tile_the_log(memory):
    """1,000 records, 300 a run: four plans that meet exactly, the fifth finds nothing."""
    memory.grow(3)
    counts = (500, 300, 200)
    for partition, count in enumerate(counts):
        memory.send(count, partition)
    memory.configure(limits={"max_records_per_run": 300})
    records = [memory.run(f"run-{n}") for n in range(5)]
    assert [r.status for r in records] == ["done"] * 4 + ["nothing_to_do"]
    assert [r.plan.offset_lag for r in records] == [700, 400, 100, 0, 0]
    assert [sum(v.rows for v in r.verified) for r in records] == [300] * 3 + [100, 0]
    for partition, count in enumerate(counts):
        ranges = [OffsetRange(s, e) for r in records for p, s, e in spans(r) if p == partition]
        assert not overlaps(ranges)
        assert total(ranges) == count
    assert memory.is_clean()


def test_the_same_run_id_replays_its_plan(landed):
    """Same ranges although more is there, same rows, one copy, the head where it was."""
    first, version = landed.ledger().find_run("lands"), landed.version
    landed.send(50)
    second = landed.run("lands")
    assert second.plan == first.plan
    assert [v.rows for v in second.verified] == [v.rows for v in first.verified]
    assert (landed.submits, landed.version) == (2, version + 1)
    assert second.table_commit.version > first.table_commit.version
    assert landed.head == {("orders", 0): 100}
    assert landed.offsets() == list(range(100))
    assert landed.is_clean()


def test_a_lone_last_record_is_read_once(landed):
    """Neither read again by the next run nor left behind."""
    landed.send(1)
    assert spans(landed.run("second")) == [(0, 100, 101)]
    assert landed.run("third").status == "nothing_to_do"
    assert landed.offsets() == list(range(101))


def test_idle_runs_start_no_spark_and_leave_the_table_alone(landed):
    """A schedule of every few minutes must cost next to nothing."""
    before = (landed.submits, landed.version)
    for number in range(10):
        assert landed.run(f"idle-{number}").status == "nothing_to_do"
    assert (landed.submits, landed.version) == before


def test_a_pattern_that_begins_to_match_another_topic(landed):
    """It is read from its beginning, as an added partition is, whatever `start` says."""
    landed.configure(kafka={"topic_pattern": "orders.*"}, start="latest")
    landed.create("orders-b", partitions=2)
    landed.send(7, partition=1, topic="orders-b")
    landed.grow(2)
    landed.send(4, partition=1)
    landed.run("second")
    assert landed.head == {
        ("orders", 0): 100,
        ("orders", 1): 4,
        ("orders-b", 0): 0,
        ("orders-b", 1): 7,
    }
    assert len(landed.rows()) == 111
    assert landed.is_clean()


def test_a_group_s_committed_offsets_can_be_the_start(memory):
    """Taking over from an old consumer: next to read is next to read."""
    memory.grow(2)
    for partition in (0, 1):
        memory.send(10, partition)
    memory.configure(start={"group": "old"})
    kafka = memory.open("x").kafka
    places = [TopicPartition("orders", partition) for partition in (0, 1)]
    kafka.commit_group("old", dict(zip(places, (4, 10), strict=True)))
    assert spans(memory.run("run")) == [(0, 4, 10)]


def test_explicit_offsets_can_be_the_start(memory):
    """Each partition from its own."""
    memory.send(10)
    memory.configure(start={"offsets": {"orders": {0: 6}}})
    assert spans(memory.run("run")) == [(0, 6, 10)]


def test_a_future_timestamp_means_the_end_that_was_taken_before_the_look_up(memory):
    """What comes after the first run is read."""
    memory.send(10)
    future = memory.clock.now() + timedelta(hours=1)
    memory.configure(start={"timestamp": future.isoformat()})
    assert memory.run("run").status == "nothing_to_do"
    memory.send(2)
    assert spans(memory.run("next")) == [(0, 10, 12)]


def test_a_consumer_group_is_told_the_next_offsets(memory):
    """For lag tools, after the advance."""
    memory.configure(kafka={"topics": ["orders"], "commit_group": "group"})
    memory.send(10)
    memory.run("run")
    assert [offset for _, offset in memory.cluster.groups["group"].values()] == [10]


@pytest.mark.parametrize("trouble", ["loses", "repeats", "fails"])
def test_what_spark_gets_wrong_is_never_published_unseen(memory, trouble):
    """The next try reads all of it."""
    memory.send(10)
    setattr(memory.spark, trouble, 1)
    if trouble == "fails":
        with pytest.raises(ServiceAway):
            memory.run("run")
        assert memory.offsets() == []
    else:
        with pytest.raises(Exception, match=r"unexplained_gap|too many"):
            memory.run("run")
        assert memory.head == {("orders", 0): 0}
    assert memory.run("run").status == "done"
    assert memory.offsets() == list(range(10))


def test_nobody_else_writes_to_the_table_while_spark_does(memory):
    """Maintenance waits: what nobody has committed yet is never touched."""
    met = []

    def during():
        with pytest.raises(StreamBusy, match="writer"), memory.ledger().lease("writer"):
            met.append("a second writer")

    memory.send(10)
    memory.sparks = [lambda spark: HookedSpark(spark, after=during)]
    memory.run("run")
    assert met == []
    with memory.ledger().lease("writer"):
        assert memory.offsets() == list(range(10))


class Starved:
    """A Spark that has memory for one task, or for none."""

    def __init__(self, spark, said, *, bears=True):
        self.spark, self.said, self.bears, self.jobs = spark, said, bears, []

    def submit(self, job_path):
        job = load(SparkJob, Path(job_path).read_bytes(), "job")
        self.jobs.append(job)
        if job.in_one_task and self.bears:
            self.spark.submit(job_path)
            return
        Path(job.result_path).write_text(dump(SparkResult(error="ServiceAway", message=self.said)))
        raise ServiceAway("Spark ended with status 1")


@pytest.mark.parametrize(
    "said",
    [
        "its JVM has run out of memory, which all jobs of a driver share",
        "Lost task 0.3 in stage 0.0: java.lang.OutOfMemoryError: Java heap space",
        "ExecutorLostFailure (executor 1 exited): Command exited with code 52",
        "The executor with id 2 exited with exit code 137(SIGKILL, possible container OOM).",
    ],
)
def test_a_frozen_plan_that_needs_too_much_memory_is_read_in_one_task(pair, said):
    """A lower limit cannot make it smaller: the same plan, one piece after the other."""
    pair.send(20)
    pair.send(10, partition=1)
    frozen = pair.freeze("run").plan
    starved = []
    pair.sparks = [lambda spark: starved.append(Starved(spark, said)) or starved[0]]
    record = pair.run("run")
    assert (record.status, dump(record.plan)) == ("done", dump(frozen))
    first, second = starved[0].jobs
    assert (first.in_one_task, second.in_one_task) == (False, True)
    assert first.folder != second.folder
    assert first.ranges == second.ranges
    assert [len(pair.offsets(n)) for n in (0, 1)] == [pair.log(n).end for n in (0, 1)]
    assert pair.is_clean()


@pytest.mark.parametrize(("said", "times"), [("out of memory", 2), ("no broker", 1)])
def test_what_needs_too_much_memory_in_one_task_is_left_to_a_later_run(memory, said, times):
    """Once per try, and for no other reason."""
    memory.send(10)
    starved = []
    memory.sparks = [lambda spark: starved.append(Starved(spark, said, bears=False)) or starved[0]]
    with pytest.raises(ServiceAway, match=said):
        memory.run("run")
    assert len(starved[0].jobs) == times
    assert memory.run("run").status == "done"
    assert memory.offsets() == list(range(10))


def test_spark_is_told_how_long_a_job_may_stand_still(memory):
    """What it then says is an error that a later attempt may overcome; nothing is read twice."""
    memory.configure(spark={"stall_seconds": 600})
    memory.send(10)
    stalled = []
    said = "no task of Spark has ended and no record was read for 10 min"
    memory.sparks = [lambda spark: stalled.append(Starved(spark, said, bears=False)) or stalled[0]]
    with pytest.raises(ServiceAway, match="no task of Spark has ended"):
        memory.run("run")
    assert [job.stall_seconds for job in stalled[0].jobs] == [600]
    assert memory.run("run").status == "done"
    assert memory.offsets() == list(range(10))
