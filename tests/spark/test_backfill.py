"""Backfills on a real broker and real Spark: what they land, and what they leave alone."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.worlds.streams import decide, head, spans, table_rows, table_version
from tideline.errors import BadInput, RequestConflict, ResetDetected, WindowUnavailable
from tideline.model.request import RequestedRange, RunRequest
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges
from tideline.wiring import open_ledger, open_run

HOUR = timedelta(hours=1)
NOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 12 * HOUR
KEEP = {"retention.ms": "-1"}


def hours(start, end):
    return {
        "from": (NOON + start * HOUR).isoformat(),
        "to": (NOON + end * HOUR).isoformat(),
    }


def one_range(harness, start, end, partition=0):
    return {
        "ranges": [
            {
                "topic": harness.topic(),
                "partition": partition,
                "start_offset": start,
                "end_offset": end,
            }
        ]
    }


def asked(harness, start, end):
    return RunRequest(ranges=(RequestedRange(harness.topic(), 0, start, end),))


def clean(harness, stream):
    found, findings = harness.audit(stream)
    return found.clean and not findings


@pytest.fixture
def hourly(harness):
    """Ten records an hour for six hours, in two partitions; the live lane starts at the end."""
    harness.create(partitions=2, **KEEP)
    for partition in (0, 1):
        times = [NOON + n * HOUR / 10 for n in range(60)]
        harness.send_at(*times, partition=partition)
    return harness.stream(start="latest")


def test_windows_tile_in_any_order(harness, spark, hourly):
    """Six hours, none twice and none left out, and the head where it was."""
    for n in (3, 0, 5, 1, 2, 4):
        record = harness.run(hourly, f"hour-{n}", spark, **hours(n, n + 1))
        assert (record.lane, record.status) == ("backfill", "done")
        assert spans(record) == [(p, 10 * n, 10 * n + 10) for p in (0, 1)]
    assert head(hourly) == {(harness.topic(), 0): 60, (harness.topic(), 1): 60}
    assert len(set(table_rows(hourly))) == len(table_rows(hourly)) == 120
    assert clean(harness, hourly)


@pytest.mark.slow
def test_a_window_means_the_same_offsets_for_good(harness, spark, hourly):
    """R11: what arrives late, by its own time, belongs to whoever reads its offset."""
    harness.run(hourly, "first", spark, **hours(4, 6))
    harness.send_at(NOON + 4.5 * HOUR)
    replayed = harness.run(hourly, "first", spark, **hours(4, 6))
    assert spans(replayed) == [(0, 40, 60), (1, 40, 60)]
    assert spans(harness.run(hourly, "next", spark, **hours(6, 7))) == [(0, 60, 61)]
    assert harness.run(hourly, "live", spark).status == "nothing_to_do"
    assert clean(harness, hourly)


def test_the_live_lane_moves_over_what_a_backfill_has_landed(harness, spark):
    """R12: read once, by whichever lane came first."""
    harness.create(partitions=1)
    harness.send(100)
    stream = harness.stream()
    harness.run(stream, "some", spark, **one_range(harness, 20, 50))
    assert head(stream) == {(harness.topic(), 0): 0}
    before = spark.submits
    assert spans(harness.run(stream, "live-1", spark)) == [(0, 0, 20)]
    assert spans(harness.run(stream, "live-2", spark)) == [(0, 50, 100)]
    assert spark.submits == before + 2
    harness.send(30)
    harness.run(stream, "ahead", spark, **one_range(harness, 100, 130))
    idle = harness.run(stream, "live-3", spark)
    assert (idle.status, head(stream)) == ("nothing_to_do", {(harness.topic(), 0): 130})
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 130
    assert clean(harness, stream)


@pytest.mark.slow
def test_rows_beyond_the_head_are_not_lost_when_kafka_forgets_them(harness, spark):
    """They are in the table: no finding, nothing to decide."""
    harness.create(partitions=1)
    harness.send(100)
    stream = harness.stream()
    harness.run(stream, "first", spark)
    harness.send(50)
    harness.run(stream, "ahead", spark, **one_range(harness, 100, 140))
    harness.delete_records(before=140)
    assert spans(harness.run(stream, "live", spark)) == [(0, 140, 150)]
    assert clean(harness, stream)


def test_a_backfill_of_landed_rows_replaces_them_in_one_copy(landed, harness, spark):
    """R2, R4: read again, counted, and put in place."""
    version = table_version(landed)
    again = harness.run(landed, "again", spark, **one_range(harness, 30, 70))
    assert [v.rows for v in again.verified] == [40]
    assert table_version(landed) == version + 1
    assert len(set(table_rows(landed))) == len(table_rows(landed)) == 100
    assert (head(landed), clean(harness, landed)) == ({(harness.topic(), 0): 100}, True)


def test_part_of_a_window_has_expired(harness, spark, hourly):
    """What is gone is named, what is left is offered, and a policy decides."""
    harness.run(hourly, "first look", spark)
    for partition in (0, 1):
        harness.delete_records(before=15, partition=partition)
    with pytest.raises(WindowUnavailable, match=r"orders-0 \[0, 15\)") as refused:
        harness.run(hourly, "day", spark, **hours(1, 3))
    offered = refused.value.ranges
    assert [(r["start_offset"], r["end_offset"]) for r in offered] == [(15, 30), (15, 30)]
    assert json.dumps(offered) in refused.value.message
    assert open_ledger(hourly).read().control.incidents == ()

    lenient = harness.stream(start="latest", on_reset={"retention_loss": "accept_loss"})
    record = harness.run(lenient, "day", spark, **hours(1, 3))
    assert spans(record) == [(0, 15, 30), (1, 15, 30)]
    assert {n.kind for n in record.notices} == {"expired"}
    assert spans(harness.run(hourly, "offer", spark, ranges=offered)) == [(0, 15, 30), (1, 15, 30)]
    assert clean(harness, hourly)


@pytest.mark.slow
def test_a_window_that_has_expired_but_was_landed_is_nothing_to_do(harness, spark):
    """The rows are in the table."""
    harness.create(partitions=1, **KEEP)
    harness.send_at(*(NOON + n * HOUR / 10 for n in range(60)))
    stream = harness.stream()
    harness.run(stream, "live", spark)
    harness.delete_records(before=40)
    assert harness.run(stream, "gone", spark, **hours(1, 3)).status == "nothing_to_do"
    assert len(table_rows(stream)) == 60


@pytest.mark.slow
def test_a_record_from_the_future_makes_times_unusable(harness, spark):
    """It would hide whatever comes behind it; explicit ranges still work."""
    harness.create(partitions=1, **KEEP, **{"message.timestamp.after.max.ms": str(10**12)})
    harness.send_at(NOON, datetime.now(UTC) + 24 * HOUR, NOON + HOUR / 2)
    stream = harness.stream()
    with pytest.raises(WindowUnavailable, match="in the future") as refused:
        harness.run(stream, "hour", spark, **hours(0, 1))
    assert refused.value.offset == 1
    assert spans(harness.run(stream, "named", spark, **one_range(harness, 0, 3))) == [(0, 0, 3)]


@pytest.mark.slow
def test_a_run_id_stands_for_one_window(harness, spark, hourly):
    """Another window needs another run."""
    harness.run(hourly, "hour", spark, **hours(0, 1))
    with pytest.raises(RequestConflict, match="lane backfill"):
        harness.run(hourly, "hour", spark, **hours(1, 2))
    with pytest.raises(RequestConflict):
        harness.run(hourly, "hour", spark)


@pytest.mark.slow
def test_ranges_that_the_log_does_not_have_are_refused(landed, harness, spark):
    """And nothing is stored."""
    version = open_ledger(landed).read().version
    with pytest.raises(BadInput, match="an end of at most 100"):
        harness.run(landed, "past", spark, **one_range(harness, 50, 101))
    with pytest.raises(BadInput, match="does not follow"):
        harness.run(landed, "none", spark, **one_range(harness, 0, 1, partition=3))
    assert open_ledger(landed).find_run("past") is None
    assert open_ledger(landed).read().version <= version + 4  # leases taken and given back


def test_a_backfill_halts_where_the_log_is_another_one(landed, harness, spark):
    """Decisions are the live lane's; the backfill can be repeated after them."""
    harness.delete()
    harness.create(partitions=1)
    harness.send(10)
    with pytest.raises(ResetDetected, match="topic_recreated"):
        harness.run(landed, "some", spark, **one_range(harness, 0, 10))
    decide(landed, "restart")
    assert spans(harness.run(landed, "live", spark)) == [(0, 0, 10)]
    assert spans(harness.run(landed, "some", spark, **one_range(harness, 0, 10))) == [(0, 0, 10)]
    assert clean(harness, landed)


@pytest.mark.slow
def test_two_open_backfills_do_not_hold_the_live_lane_up(harness, spark):
    """Each run has its own lease; only writing to the table is one at a time."""
    harness.create(partitions=1)
    harness.send(90)
    stream = harness.stream()

    with (
        open_run(stream, "a", asked(harness, 0, 30), spark) as one,
        open_run(stream, "b", asked(harness, 30, 60), spark) as two,
        one.ledger.lease(one.lane_lease),
        two.ledger.lease(two.lane_lease),
    ):
        assert spans(harness.run(stream, "live", spark)) == [(0, 0, 90)]
    assert clean(harness, stream)


def test_a_backfill_that_died_after_its_commit_is_finished_by_its_own_run(harness, spark):
    """Another run leaves it alone; its rows are not foreign meanwhile."""
    harness.create(partitions=1)
    harness.send(50)
    stream = harness.stream()
    with open_run(stream, "died", asked(harness, 10, 40), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
    found, _ = harness.audit(stream)
    assert found.clean
    assert [f.offsets for f in found.unverified] == [30]
    assert spans(harness.run(stream, "live", spark)) == [(0, 0, 50)]
    submits = spark.submits
    finished = harness.run(stream, "died", spark, **one_range(harness, 10, 40))
    assert (finished.status, spark.submits) == ("done", submits)
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 50
    assert clean(harness, stream)
