"""Backfills from Airflow's API: their intervals tile, beside the live lane, which alone moves."""

from datetime import UTC, datetime, timedelta

import pytest

from devstack.airflow_harness import started
from tests.worlds.backfills import MINUTE, RETRIES, Backfilled
from tests.worlds.streams import head, spans, table_rows, table_version
from tideline.wiring import open_ledger


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


@pytest.mark.timeout(2400)
def test_intervals_tile_beside_the_live_lane(harness, client):
    """Two at a time; every record of the window once, the head moved only by live runs."""
    backfills(harness, client, 2, rounds=1)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_twelve_intervals_tile_beside_the_live_lane(harness, client):
    """The same for a window that takes its time."""
    backfills(harness, client, 12, rounds=2)


def backfills(harness, client, intervals, rounds):
    """As many intervals from Airflow's API, live runs meanwhile, and the judgement."""
    name = f"tiles-{intervals}"
    scenario = Backfilled.build(harness, client, name, intervals)
    backfill = client.backfill(name, scenario.first, scenario.last, at_once=2)
    scenario.follow_live(harness, rounds)
    client.wait_for_backfill(backfill, 1500)
    client.pause(name, True)
    print(scenario.assert_tiled(harness, client))


@pytest.mark.slow
def test_reprocessing_replays_a_run_s_own_plan(harness, client):
    """`none` leaves runs alone; `completed` reads the same offsets again, in the run's own lane."""
    harness.create(partitions=1, **{"retention.ms": "-1"})
    first = datetime(datetime.now(UTC).year, 1, 1, tzinfo=UTC) - timedelta(days=1)
    harness.send_at(first + MINUTE, first + 2 * MINUTE)
    stream = started(harness, client, "again", schedule="0 0 * * *", airflow=RETRIES)
    ledger = open_ledger(stream)
    client.wait_for_backfill(client.backfill("again", first, first))
    (run_id,) = (r["dag_run_id"] for r in client.runs("again") if r["run_type"] == "backfill")
    record = ledger.find_run(run_id)
    assert (record.lane, spans(record)) == ("backfill", [(0, 0, 2)])
    (scheduled,) = (r["dag_run_id"] for r in client.runs("again") if r["run_type"] == "scheduled")
    assert client.wait_for_run("again", scheduled) == "success"
    live, version = ledger.find_run(scheduled), table_version(stream)
    assert live.lane == "live"

    harness.send_at(first + MINUTE / 2)  # late: by its own time it would belong to the first day
    client.wait_for_backfill(client.backfill("again", first, first, reprocess="none"))
    assert table_version(stream) == version
    client.wait_for_backfill(client.backfill("again", first, first, reprocess="completed"))
    assert ledger.find_run(run_id).plan == record.plan
    assert client.tasks("again", run_id)["ingest_ranges"]["try_number"] == 2
    assert len(set(table_rows(stream))) == len(table_rows(stream))

    day = datetime.fromisoformat(
        next(r["logical_date"] for r in client.runs("again") if r["dag_run_id"] == scheduled)
    )
    before = head(stream)
    client.wait_for_backfill(client.backfill("again", day, day, reprocess="completed"))
    run = next(r for r in client.runs("again") if r["dag_run_id"] == scheduled)
    assert (run["run_type"], run["state"]) == ("backfill", "success")
    assert ledger.find_run(scheduled).plan == live.plan
    assert head(stream) == before
