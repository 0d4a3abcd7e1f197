"""A person backfills from Airflow's page, in a real browser."""

import pytest
from airflow_client.client.api.backfill_api import BackfillApi
from playwright.sync_api import expect

from devstack.airflow_harness import started
from tests.browser.pages import open_form, pick_time, shoot
from tests.worlds.backfills import Backfilled
from tideline.wiring import open_ledger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


def test_twelve_intervals_from_the_page(harness, client, stack, page, shots):
    """Two at a time beside the live lane, as the form says."""
    scenario = Backfilled.build(harness, client, "paged", 12)
    open_form(page, f"{stack.airflow.url}/dags/paged")
    page.get_by_text("Backfill", exact=True).last.click()
    pick_time(page, 0, scenario.first)
    pick_time(page, 1, scenario.last)
    page.locator("[name=max_active_runs]").fill("2")
    expect(page.get_by_role("dialog").first).to_contain_text("12 runs will be triggered")
    shoot(page, shots / "backfill-form.png")
    page.get_by_role("button", name="Run Backfill").click()
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=60_000)
    scenario.follow_live(harness, rounds=2)
    (backfill,) = client.api(BackfillApi).list_backfills("paged").backfills
    assert backfill.max_active_runs == 2
    client.wait_for_backfill(backfill.id, 1500)
    client.pause("paged", True)
    page.goto(f"{stack.airflow.url}/dags/paged")
    page.get_by_role("button", name="Expand all task groups").click()
    expect(page.get_by_text("advance_offsets").first).to_be_visible()
    shoot(page, shots / "backfill-grid.png")
    page.goto(f"{stack.airflow.url}/dags/paged/backfills")
    shoot(page, shots / "backfill-list.png")
    print(scenario.assert_tiled(harness, client))


def test_a_window_in_the_trigger_form(harness, client, stack, page, shots):
    """Dates are picked, the reason is kept; nothing but the form is needed."""
    scenario = Backfilled.build(harness, client, "windowed", 2)
    client.pause("windowed", True)
    stream = started(harness, client, "windowed-form", start="latest")
    open_form(page, f"{stack.airflow.url}/dags/windowed-form")
    page.locator("[name=element_reason]").fill("lost a chunk")  # of its sections one is open
    page.get_by_text("Single run only: backfill a window or offsets").click()
    pick_time(page, 1, scenario.first)
    pick_time(page, 2, scenario.last)
    shoot(page, shots / "window-form.png")
    page.get_by_role("button", name="Trigger").last.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    (run,) = client.runs("windowed-form")
    assert client.wait_for_run("windowed-form", run["dag_run_id"]) == "success"
    record = open_ledger(stream).find_run(run["dag_run_id"])
    assert (record.lane, record.request.reason) == ("backfill", "lost a chunk")
    assert {(r.start_offset, r.end_offset) for r in record.plan.ranges} == {(0, 5)}
