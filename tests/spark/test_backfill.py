"""Backfills on a real broker and real Spark: what they land, and what they leave alone."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.real import decide, head, spans, table_rows, table_version
from tideline.errors import BadInput, RequestConflict, ResetDetected, WindowUnavailable
from tideline.model.request import RequestedRange, RunRequest
from tideline.pipeline.detect_earliest_reset import detect_earliest_reset
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.plan_offset_ranges import plan_offset_ranges
from tideline.wiring import open_ledger, open_run

HOUR = timedelta(hours=1)
NOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 12 * HOUR
KEEP = {"retention.ms": "-1"}


def hours(start, end):
    return {
        "from": (NOON + start * HOUR).isoformat(),
        "to": (NOON + end * HOUR).isoformat(),
    }


def one_range(world, start, end, partition=0):
    return {
        "ranges": [
            {
                "topic": world.topic(),
                "partition": partition,
                "start_offset": start,
                "end_offset": end,
            }
        ]
    }


def asked(world, start, end):
    return RunRequest(ranges=(RequestedRange(world.topic(), 0, start, end),))


def clean(world, stream):
    found, findings = world.audit(stream)
    return found.clean and not findings


@pytest.fixture
def hourly(world):
    """Ten records an hour for six hours, in two partitions; the live lane starts at the end."""
    world.create(partitions=2, **KEEP)
    for partition in (0, 1):
        times = [NOON + n * HOUR / 10 for n in range(60)]
        world.send_at(*times, partition=partition)
    return world.stream(start="latest")


def test_windows_tile_in_any_order(world, spark, hourly):
    """Six hours, none twice and none left out, and the head where it was."""
    for n in (3, 0, 5, 1, 2, 4):
        record = world.run(hourly, f"hour-{n}", spark, **hours(n, n + 1))
        assert (record.lane, record.status) == ("backfill", "done")
        assert spans(record) == [(p, 10 * n, 10 * n + 10) for p in (0, 1)]
    assert head(hourly) == {(world.topic(), 0): 60, (world.topic(), 1): 60}
    assert len(set(table_rows(hourly))) == len(table_rows(hourly)) == 120
    assert clean(world, hourly)


@pytest.mark.slow
def test_a_window_means_the_same_offsets_for_good(world, spark, hourly):
    """R11: what arrives late, by its own time, belongs to whoever reads its offset."""
    world.run(hourly, "first", spark, **hours(4, 6))
    world.send_at(NOON + 4.5 * HOUR)
    replayed = world.run(hourly, "first", spark, **hours(4, 6))
    assert spans(replayed) == [(0, 40, 60), (1, 40, 60)]
    assert spans(world.run(hourly, "next", spark, **hours(6, 7))) == [(0, 60, 61)]
    assert world.run(hourly, "live", spark).status == "nothing_to_do"
    assert clean(world, hourly)


def test_the_live_lane_moves_over_what_a_backfill_has_landed(world, spark):
    """R12: read once, by whichever lane came first."""
    world.create(partitions=1)
    world.send(100)
    stream = world.stream()
    world.run(stream, "some", spark, **one_range(world, 20, 50))
    assert head(stream) == {(world.topic(), 0): 0}
    before = spark.submits
    assert spans(world.run(stream, "live-1", spark)) == [(0, 0, 20)]
    assert spans(world.run(stream, "live-2", spark)) == [(0, 50, 100)]
    assert spark.submits == before + 2
    world.send(30)
    world.run(stream, "ahead", spark, **one_range(world, 100, 130))
    idle = world.run(stream, "live-3", spark)
    assert (idle.status, head(stream)) == ("nothing_to_do", {(world.topic(), 0): 130})
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 130
    assert clean(world, stream)


@pytest.mark.slow
def test_rows_beyond_the_head_are_not_lost_when_kafka_forgets_them(world, spark):
    """They are in the table: no finding, nothing to decide."""
    world.create(partitions=1)
    world.send(100)
    stream = world.stream()
    world.run(stream, "first", spark)
    world.send(50)
    world.run(stream, "ahead", spark, **one_range(world, 100, 140))
    world.delete_records(before=140)
    assert spans(world.run(stream, "live", spark)) == [(0, 140, 150)]
    assert clean(world, stream)


def test_a_backfill_of_landed_rows_replaces_them_in_one_copy(landed, world, spark):
    """R2, R4: read again, staged, counted, and put in place."""
    version = table_version(landed)
    again = world.run(landed, "again", spark, **one_range(world, 30, 70))
    assert [v.rows for v in again.verified] == [40]
    assert table_version(landed) == version + 1
    assert len(set(table_rows(landed))) == len(table_rows(landed)) == 100
    assert (head(landed), clean(world, landed)) == ({(world.topic(), 0): 100}, True)


def test_part_of_a_window_has_expired(world, spark, hourly):
    """What is gone is named, what is left is offered, and a policy decides."""
    world.run(hourly, "first look", spark)
    for partition in (0, 1):
        world.delete_records(before=15, partition=partition)
    with pytest.raises(WindowUnavailable, match=r"orders-0 \[0, 15\)") as refused:
        world.run(hourly, "day", spark, **hours(1, 3))
    offered = refused.value.ranges
    assert [(r["start_offset"], r["end_offset"]) for r in offered] == [(15, 30), (15, 30)]
    assert json.dumps(offered) in refused.value.message
    assert open_ledger(hourly).read().control.incidents == ()

    lenient = world.stream(start="latest", on_reset={"retention_loss": "accept_loss"})
    record = world.run(lenient, "day", spark, **hours(1, 3))
    assert spans(record) == [(0, 15, 30), (1, 15, 30)]
    assert {n.kind for n in record.notices} == {"expired"}
    assert spans(world.run(hourly, "offer", spark, ranges=offered)) == [(0, 15, 30), (1, 15, 30)]
    assert clean(world, hourly)


@pytest.mark.slow
def test_a_window_that_has_expired_but_was_landed_is_nothing_to_do(world, spark):
    """The rows are in the table."""
    world.create(partitions=1, **KEEP)
    world.send_at(*(NOON + n * HOUR / 10 for n in range(60)))
    stream = world.stream()
    world.run(stream, "live", spark)
    world.delete_records(before=40)
    assert world.run(stream, "gone", spark, **hours(1, 3)).status == "nothing_to_do"
    assert len(table_rows(stream)) == 60


@pytest.mark.slow
def test_a_record_from_the_future_makes_times_unusable(world, spark):
    """It would hide whatever comes behind it; explicit ranges still work."""
    world.create(partitions=1, **KEEP, **{"message.timestamp.after.max.ms": str(10**12)})
    world.send_at(NOON, datetime.now(UTC) + 24 * HOUR, NOON + HOUR / 2)
    stream = world.stream()
    with pytest.raises(WindowUnavailable, match="in the future") as refused:
        world.run(stream, "hour", spark, **hours(0, 1))
    assert refused.value.offset == 1
    assert spans(world.run(stream, "named", spark, **one_range(world, 0, 3))) == [(0, 0, 3)]


@pytest.mark.slow
def test_a_run_id_stands_for_one_window(world, spark, hourly):
    """Another window needs another run."""
    world.run(hourly, "hour", spark, **hours(0, 1))
    with pytest.raises(RequestConflict, match="lane backfill"):
        world.run(hourly, "hour", spark, **hours(1, 2))
    with pytest.raises(RequestConflict):
        world.run(hourly, "hour", spark)


@pytest.mark.slow
def test_ranges_that_the_log_does_not_have_are_refused(landed, world, spark):
    """And nothing is stored."""
    version = open_ledger(landed).read().version
    with pytest.raises(BadInput, match="an end of at most 100"):
        world.run(landed, "past", spark, **one_range(world, 50, 101))
    with pytest.raises(BadInput, match="does not follow"):
        world.run(landed, "none", spark, **one_range(world, 0, 1, partition=3))
    assert open_ledger(landed).find_run("past") is None
    assert open_ledger(landed).read().version <= version + 4  # leases taken and given back


def test_a_backfill_halts_where_the_log_is_another_one(landed, world, spark):
    """Decisions are the live lane's; the backfill can be repeated after them."""
    world.delete()
    world.create(partitions=1)
    world.send(10)
    with pytest.raises(ResetDetected, match="topic_recreated"):
        world.run(landed, "some", spark, **one_range(world, 0, 10))
    decide(landed, "restart")
    assert spans(world.run(landed, "live", spark)) == [(0, 0, 10)]
    assert spans(world.run(landed, "some", spark, **one_range(world, 0, 10))) == [(0, 0, 10)]
    assert clean(world, landed)


@pytest.mark.slow
def test_two_open_backfills_do_not_hold_the_live_lane_up(world, spark):
    """Each run has its own lease; only writing to the table is one at a time."""
    world.create(partitions=1)
    world.send(90)
    stream = world.stream()

    with (
        open_run(stream, "a", asked(world, 0, 30), spark) as one,
        open_run(stream, "b", asked(world, 30, 60), spark) as two,
        one.ledger.lease(one.lane_lease),
        two.ledger.lease(two.lane_lease),
    ):
        assert spans(world.run(stream, "live", spark)) == [(0, 0, 90)]
    assert clean(world, stream)


def test_a_backfill_that_died_after_its_commit_is_finished_by_its_own_run(world, spark):
    """Another run leaves it alone; its rows are not foreign meanwhile."""
    world.create(partitions=1)
    world.send(50)
    stream = world.stream()
    with open_run(stream, "died", asked(world, 10, 40), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
    found, _ = world.audit(stream)
    assert found.clean
    assert [f.offsets for f in found.unverified] == [30]
    assert spans(world.run(stream, "live", spark)) == [(0, 0, 50)]
    submits = spark.submits
    finished = world.run(stream, "died", spark, **one_range(world, 10, 40))
    assert (finished.status, spark.submits) == ("done", submits)
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 50
    assert clean(world, stream)
