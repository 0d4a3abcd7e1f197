"""The page where people meet it: in a real Airflow's navigation, and on a stream's Dag."""

import pytest
from playwright.sync_api import expect

from devstack.airflow_harness import started, states

pytestmark = pytest.mark.slow
COLOUR = """links => links.map(link => [link, ...link.querySelectorAll("*")]
  .map(node => getComputedStyle(node).backgroundColor)
  .find(colour => !colour.endsWith(", 0)") && colour !== "transparent") ?? null)"""


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


def test_from_the_navigation_and_from_the_dag(harness, client, stack, page, shots):
    """A stream that has landed is up to date in the list, and on its Dag's own tab."""
    name = harness.create(partitions=2)
    harness.send(10)
    started(harness, client, "seen")
    client.trigger("seen", "lands")
    assert client.wait_for_run("seen", "lands") == "success"

    page.goto(f"{stack.airflow.url}/plugin/tideline")
    listed = page.frame_locator("iframe")
    expect(listed.get_by_role("row").filter(has_text="seen")).to_contain_text("up to date")
    page.screenshot(path=shots / "page-in-airflow.png")

    page.goto(f"{stack.airflow.url}/dags/seen")
    page.get_by_role("link", name="Stream", exact=True).click()
    own = page.frame_locator("iframe")
    expect(own.get_by_text(name).first).to_be_visible()
    expect(own.locator("#coverage")).to_be_visible()
    expect(own.get_by_text("lands").first).to_be_visible()
    page.screenshot(path=shots / "page-on-a-dag.png")


def test_a_run_with_nothing_to_read_does_not_look_broken(harness, client, stack, page, shots):
    """Its tasks are skipped, and the grid shows two green squares: the plan, and the group."""
    harness.create(partitions=1)
    started(harness, client, "idle", schedule=None)
    client.trigger("idle", "nothing")
    assert client.wait_for_run("idle", "nothing") == "success"
    assert sorted(states(client, "idle", "nothing").values()) == ["skipped"] * 4 + ["success"] * 2
    page.goto(f"{stack.airflow.url}/dags/idle")
    expect(page.get_by_text("land", exact=True).first).to_be_visible()
    expect(page.get_by_text("ingest_ranges")).to_have_count(0)
    squares = page.locator("a[href*='/runs/nothing/tasks/']")
    expect(squares).to_have_count(2)
    page.screenshot(path=shots / "grid-of-an-idle-run.png")
    plan, group = squares.evaluate_all(COLOUR)
    assert plan == group is not None
    page.get_by_role("button", name="Expand all task groups").click()
    expect(squares).to_have_count(7)
    page.screenshot(path=shots / "grid-of-an-idle-run-open.png")
    assert [c == plan for c in squares.evaluate_all(COLOUR)] == [True] * 3 + [False] * 4
