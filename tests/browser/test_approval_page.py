"""A person answers an approval on Airflow's page, in a real browser."""

import pytest
from playwright.sync_api import expect

from devstack.airflow_harness import started
from tests.worlds.streams import closed_incidents, head, table_rows
from tideline.model.verdicts import VERDICTS

pytestmark = pytest.mark.slow


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


def test_an_approval_through_the_page(harness, client, stack, page, shots):
    """The form says what is at stake; the answer continues at the log start, with a name."""
    name = harness.create(partitions=1)
    harness.send(10)
    stream = started(harness, client, "asked", on_reset={"retention_loss": "approve"})
    client.trigger("asked", "lands")
    assert client.wait_for_run("asked", "lands") == "success"
    harness.send(40)
    harness.delete_records(before=30)
    client.trigger("asked", "asks")
    client.wait_for_question("asked", "asks")

    page.goto(f"{stack.airflow.url}/dags/asked/runs/asks/tasks/resolve_reset/required_actions")
    body = page.locator("main, body").first
    expect(body).to_contain_text("at stake: offsets [10, 30): at most 20 records")
    expect(body).to_contain_text(VERDICTS["retention_loss"].choices["accept_loss"])
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
