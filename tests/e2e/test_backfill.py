"""Backfills from Airflow's API: their intervals tile, beside the live lane, which alone moves."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.airflow_world import started
from tests.real import head, spans, table_rows
from tideline.core.coverage import overlaps, union
from tideline.core.offsets import OffsetRange
from tideline.embedded.process import wait_until
from tideline.wiring import open_ledger

MINUTE = timedelta(minutes=1)


@pytest.fixture
def world(airflow_world):
    return airflow_world


def backfill_runs(client, dag_id):
    return [r for r in client.runs(dag_id) if r["dag_run_id"].startswith("backfill__")]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("intervals", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_intervals_tile_beside_the_live_lane(world, client, intervals):
    """Two at a time; every record of the window once, the head moved only by live runs."""
    name = f"tiles-{intervals}"
    world.create(partitions=2, **{"retention.ms": "-1"})
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    first = now - timedelta(hours=2)
    for partition in (0, 1):
        times = [first + n * 12 * timedelta(seconds=1) for n in range(5 * intervals + 20)]
        world.send_at(*times, partition=partition)
    world.send(7)  # what the live lane begins behind
    stream = started(world, client, name, start="latest", schedule="* * * * *")
    backfill = client.backfill(name, first, first + (intervals - 1) * MINUTE, at_once=2)
    ends = {(world.topic(), 0): 5 * intervals + 27, (world.topic(), 1): 5 * intervals + 20}
    for number in range(2):
        world.send(10, partition=number)
        ends[(world.topic(), number)] += 10
        wait_until(lambda: head(stream) == ends, "the live lane does not follow", 600, 1)
    client.wait_for_backfill(backfill, 1500)
    client.pause(name, True)

    runs = backfill_runs(client, name)
    assert [r["state"] for r in runs] == ["success"] * intervals
    ledger = open_ledger(stream)
    records = [ledger.find_run(r["dag_run_id"]) for r in runs]
    for partition in (0, 1):
        found = [OffsetRange(s, e) for r in records for p, s, e in spans(r) if p == partition]
        assert overlaps(found) == ()
        assert union(found) == (OffsetRange(0, 5 * intervals),)
        assert len(found) == intervals
    assert {r.lane for r in records} == {"backfill"}
    live = [r for r in ledger.closed_runs() if r.lane == "live" and r.verified]
    assert {r.run_id.partition("__")[0] for r in live} == {"scheduled"}
    assert {v.planned.partition: v.planned.end_offset for r in live for v in r.verified} == {
        partition: end for (_, partition), end in ends.items()
    }
    assert ledger.read().head.live_runs == len(live)
    assert head(stream) == ends
    rows = table_rows(stream)
    assert len(set(rows)) == len(rows)
    audit, findings = world.audit(stream)
    assert (audit.clean, findings) == (True, ())


def test_reprocessing_replays_a_run_s_own_plan(world, client):
    """`none` leaves runs alone; `completed` reads the same offsets again, in the run's own lane."""
    world.create(partitions=1, **{"retention.ms": "-1"})
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    first = now - timedelta(hours=2)
    world.send_at(*(first + n * MINUTE / 4 for n in range(8)))
    stream = started(world, client, "again", start="latest", schedule="* * * * *")
    ledger = open_ledger(stream)
    client.wait_for_backfill(client.backfill("again", first, first + MINUTE))
    before = {r["dag_run_id"]: r for r in backfill_runs(client, "again")}
    plans = {run_id: ledger.find_run(run_id).plan for run_id in before}
    assert [spans(ledger.find_run(r)) for r in before] == [[(0, 0, 4)], [(0, 4, 8)]]
    world.send_at(first + MINUTE / 2)  # late: by its own time it would belong to the first
    client.wait_for_backfill(client.backfill("again", first, first + MINUTE, reprocess="none"))
    assert {r["dag_run_id"]: r for r in backfill_runs(client, "again")} == before
    client.wait_for_backfill(client.backfill("again", first, first + MINUTE, reprocess="completed"))
    after = {r["dag_run_id"]: r["state"] for r in backfill_runs(client, "again")}
    assert after == dict.fromkeys(before, "success")
    for run_id, plan in plans.items():
        replayed = ledger.find_run(run_id)
        assert replayed.plan == plan
        assert client.tasks("again", run_id)["ingest_ranges"]["try_number"] == 2
    rows = table_rows(stream)
    assert len(set(rows)) == len(rows)
