"""A person answers an approval on Airflow's page, in a real browser."""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.airflow_world import started
from tests.real import closed_incidents, head, table_rows

pytestmark = pytest.mark.slow

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture
def world(airflow_world):
    return airflow_world


@pytest.fixture
def page(stack):
    """A logged-in page of the embedded Airflow in Debian's Chromium."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert chromium, "no Chromium: `make test-browser` installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_QUIET))
        found = browser.new_page(viewport={"width": 1400, "height": 900})
        found.goto(f"{stack.airflow.url}/auth/login")
        found.get_by_label("Username").fill(stack.airflow.username)
        found.get_by_label("Password").fill(stack.airflow.password)
        found.get_by_role("button", name="Sign in").click()
        found.wait_for_url(lambda url: "login" not in url)
        yield found
        browser.close()


def test_an_approval_through_the_page(world, client, stack, page, tmp_path):
    """The form says what is at stake; the answer continues at the log start, with a name."""
    name = world.create(partitions=1)
    world.send(10)
    stream = started(world, client, "asked", on_reset={"retention_loss": "approve"})
    client.trigger("asked", "lands")
    assert client.wait_for_run("asked", "lands") == "success"
    world.send(40)
    world.delete_records(before=30)
    client.trigger("asked", "asks")
    client.wait_for_question("asked", "asks")

    page.goto(f"{stack.airflow.url}/dags/asked/runs/asks/tasks/resolve_reset/required_actions")
    body = page.locator("main, body").first
    expect(body).to_contain_text("at stake: offsets [10, 30): at most 20 records")
    expect(body).to_contain_text("go on at the log start; the interval is recorded as lost")
    shots = Path(os.environ.get("TIDELINE_SCREENSHOTS") or tmp_path)
    shots.mkdir(parents=True, exist_ok=True)
    page.locator("[name=element_comment]").fill("those were tests")
    page.screenshot(path=shots / "approval-asked.png", full_page=True)
    page.get_by_role("button", name="accept_loss").click()
    assert client.wait_for_run("asked", "asks") == "success"
    page.reload()
    expect(body).to_contain_text("admin")
    page.screenshot(path=shots / "approval-answered.png", full_page=True)

    assert head(stream) == {(name, 0): 50}
    assert len(table_rows(stream)) == 30
    (incident,) = closed_incidents(stream)
    assert (incident.decision.by, incident.decision.reason) == ("admin", "those were tests")
    assert (incident.finding.lost_start, incident.finding.lost_end) == (10, 30)
