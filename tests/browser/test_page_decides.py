"""An incident about which no run asks is answered on the page, by a run of Airflow's."""

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.browser.page_world import at_stake, unasked
from tideline.contract.page import StreamPage
from tideline.model.verdicts import VERDICTS, valid_choices

pytestmark = pytest.mark.slow
DAG_RUNS = "/api/v2/dags/tideline_resolve/dagRuns"


@pytest.fixture
def halted(world):
    """Three incidents of a default stream: two of one topic and class, one of another class."""
    first = at_stake()
    second = first.model_copy(update={"id": "incident-32", "partition": 6})
    cut = {"kind": "truncation", "choices": valid_choices("truncation")}
    other = first.model_copy(update={"id": "incident-33", **cut})
    incidents = (first, second, other)
    actions = (*unasked("orders", *incidents), *world.page.actions[1:])
    status = replace(world.page.status, state="halted", open_incidents=3)
    world.page = world.orders(incidents=incidents, actions=actions, status=status)
    return world


def card(page, incident="incident-31"):
    return page.locator("article.incident").filter(has_text=incident).first


def test_three_clicks_from_the_list_to_a_decision(visitor, halted):
    """Stream, choice, record; what Airflow is sent is what its own form would send."""
    halted.streams = [StreamPage.model_validate(halted.page)]
    clicks = []

    def click(what):
        clicks.append(what)
        what.click()

    page = visitor.streams()
    click(page.get_by_role("link", name="orders"))
    shown = card(page)
    expect(shown).to_contain_text(VERDICTS["retention_loss"].choices["accept_loss"])
    click(shown.get_by_role("button", name="accept_loss"))
    page.keyboard.type("they were tests")  # the field has the focus
    click(shown.get_by_role("button", name="Accept the loss of at most 148,300 records"))
    expect(shown).to_contain_text("Recorded. The next run carries the decision out.")
    form = {"stream": "orders", "incident": "incident-31", "choice": "accept_loss"}
    conf = {**form, "reason": "they were tests"}
    assert halted.sent == [(DAG_RUNS, {"conf": conf, "logical_date": None})]
    assert len(clicks) == 3


def test_a_refresh_keeps_what_is_written_and_the_decision_is_shown(visitor, halted):
    """The page asks again while somebody writes; then the incident has a decision."""
    page = visitor.stream()
    card(page).get_by_role("button", name="accept_loss").click()
    page.keyboard.type("they were")
    visitor.refreshed(page)
    page.keyboard.type(" tests")
    expect(card(page).get_by_label("Reason")).to_have_value("they were tests")
    decided = {"decision": "accept_loss", "decided_by": "ann", "reason": "they were tests"}
    first, *others = halted.page.incidents
    halted.page = halted.orders(incidents=(first.model_copy(update=decided), *others))
    visitor.refreshed(page)
    expect(card(page)).to_contain_text("accept_loss by ann")
    told = "Decided. The decision waits for a run. The next scheduled run carries the decision out."
    expect(card(page)).to_contain_text(told)
    expect(card(page).locator("form")).to_have_count(0)


def test_a_decision_is_carried_out_at_once(visitor, halted):
    """A button has Airflow run the stream's Dag; what came of it is said, with a way to the run."""
    first = halted.page.incidents[0].model_copy(update={"decision": "accept_loss"})
    status = replace(halted.page.status, state="decided")
    halted.page = halted.orders(incidents=(first,), status=status)
    page = visitor.stream()
    expect(page.locator(".headline")).to_contain_text("the decision waits for a run")
    card(page).get_by_role("button", name="Run now").click()
    expect(card(page)).to_contain_text("The run was successful.")
    assert halted.sent == [("/api/v2/dags/orders/dagRuns", {"conf": {}, "logical_date": None})]
    link = card(page).get_by_role("link", name="This run")
    assert link.get_attribute("href").endswith("/dags/orders/runs/sent")
    halted.paused = {"orders"}
    visitor.refreshed(page)
    expect(card(page)).to_contain_text(
        "The Dag is paused. Unpause the Dag, otherwise no run begins."
    )


def test_like_incidents_are_answered_together(visitor, halted):
    """Those of the topic and the class; no other one."""
    page = visitor.stream()
    expect(card(page, "incident-33").get_by_role("button")).to_have_count(2)
    card(page).get_by_role("button", name="accept_loss").click()
    page.keyboard.type("they were tests")
    card(page).get_by_label("also decide 1 other incident of this class in orders").check()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(card(page)).to_contain_text("Recorded")
    ((_, body),) = halted.sent
    assert body["conf"]["incident"] == "incident-31,incident-32"


@pytest.mark.parametrize(
    ("taken", "state", "said"),
    [
        ((403, {"detail": "Forbidden"}), None, "The decision was not recorded: Forbidden"),
        (
            (404, {"detail": "The Dag was not found"}),
            None,
            "The decision was not recorded: The Dag was not",
        ),
        (None, "failed", "The decision was not recorded. The run's log says why."),
        (
            None,
            "queued",
            "Airflow has accepted the run. The decision is recorded when the run ends.",
        ),
    ],
)
def test_what_is_not_recorded_is_said(visitor, halted, taken, state, said):
    """Airflow refuses, or the Dag does, or nobody runs it."""
    visitor.expected.append(str(taken[0]) if taken else "nothing")
    halted.taken = taken or halted.taken
    halted.sent_state = state
    page = visitor.stream()
    card(page).get_by_role("button", name="accept_loss").click()
    page.keyboard.type("they were tests")
    page.keyboard.press("Enter")
    expect(card(page)).to_contain_text(said)
    if taken is None:
        link = card(page).get_by_role("link", name="This run")
        assert link.get_attribute("href").endswith("/dags/tideline_resolve/runs/sent")


def test_without_a_reason_nothing_is_sent(visitor, halted):
    """The browser asks for it."""
    page = visitor.stream()
    card(page).get_by_role("button", name="accept_loss").click()
    page.keyboard.type("  ")
    card(page).get_by_role("button", name="Accept the loss of at most 148,300 records").click()
    expect(card(page).get_by_label("Reason")).to_be_focused()
    assert halted.sent == []


def test_a_run_that_asks_is_answered_in_its_own_form(visitor):
    """Else it would go on waiting."""
    page = visitor.stream()
    link = card(page).get_by_role("link", name="Answer in Airflow's form")
    assert link.get_attribute("href").endswith("/resolve_reset/required_actions")
    expect(card(page).locator("form")).to_have_count(0)
