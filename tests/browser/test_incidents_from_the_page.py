"""Incidents, runs and windows, by somebody who has the page and Airflow's forms, and no shell.

What a person reads is asserted, and printed as a transcript; they go where the page's links lead.
"""

import re

import pytest
from airflow_client.client.api.backfill_api import BackfillApi
from playwright.sync_api import expect

from devstack.airflow_harness import started
from devstack.process import wait_until
from tests.browser.pages import pick_time
from tests.worlds.backfills import Backfilled
from tests.worlds.streams import closed_incidents, head, table_rows
from tideline.model.verdicts import VERDICTS

pytestmark = pytest.mark.slow


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


class Reader:
    """Somebody on call, in a browser."""

    def __init__(self, page, url):
        self.page = page
        self.url = url
        self.clicks = 0

    def click(self, what):
        """And count it."""
        self.clicks += 1
        what.click()

    def open_stream(self, name, state="waiting|halted"):
        """Its own page, from Airflow's navigation."""
        self.page.goto(f"{self.url}/plugin/tideline")
        listed = self.page.frame_locator("iframe")
        row = listed.get_by_role("row").filter(has_text=name)
        expect(row).to_contain_text(re.compile(state))
        print(f"\n{name}: the list says: {' '.join(row.inner_text().split())}")
        self.click(row.get_by_role("link", name=name))
        self.shown = self.page.frame_locator("iframe")

    def reads(self, *texts):
        """What the open incident says."""
        incident = self.shown.locator("article.incident.open")
        for text in texts:
            expect(incident).to_contain_text(text)
        print(f"the incident says: {' '.join(incident.inner_text().split())}")

    def answers(self, choice, reason):
        """By Airflow's own form, where the page's first action leads."""
        self.click(self.shown.locator(".actions a").first)
        self.page.wait_for_url("**/required_actions")
        self.page.locator("[name=element_comment]").fill(reason)
        self.click(self.page.get_by_role("button", name=choice))
        print(f"answers {choice}: {reason}, after {self.clicks} clicks")

    def decides(self, choice, reason):
        """On the page itself: no run waits with a form."""
        incident = self.shown.locator("article.incident.open")
        self.click(incident.get_by_role("button", name=choice, exact=True))
        self.page.keyboard.type(reason)  # the field has the focus
        self.click(incident.locator("button[type=submit]"))
        expect(incident).to_contain_text(f"{choice} by admin")
        print(f"decides {choice}: {reason}, after {self.clicks} clicks")

    def triggers_a_run(self, client, name):
        """By the decided incident's own button; the run's id."""
        known = {run["dag_run_id"] for run in client.runs(name)}
        way = self.shown.locator("article.incident.open .answerway")
        self.click(way.get_by_role("button", name="Run now"))
        begun = set()

        def has_begun():
            begun.update(run["dag_run_id"] for run in client.runs(name))
            return begun - known

        wait_until(has_begun, f"no run of {name} begins", 60)
        print(f"has triggered a run, after {self.clicks} clicks")
        (run,) = begun - known
        return run

    def sees(self, name, text):
        """The stream's page, until it says so."""
        self.page.goto(f"{self.url}/tideline/?stream={name}")
        expect(self.page.locator("main")).to_contain_text(text)
        print(f"afterwards the page says: {text}")


def asking(harness, client, name, break_it, **policies):
    """A stream that has landed ten records, and whose next run asks."""
    topic = harness.create(name, partitions=1)
    harness.send(10, name)
    kafka = {"topics": [topic]}
    stream = started(harness, client, name, kafka=kafka, on_reset=policies)
    client.trigger(name, "lands")
    assert client.wait_for_run(name, "lands") == "success"
    break_it()
    client.trigger(name, "asks")
    client.wait_for_question(name, "asks")
    return stream


def test_records_that_retention_has_taken(harness, client, stack, page):
    """What is lost, and that landing goes on behind it."""

    def expire():
        harness.send(40, "expired")
        harness.delete_records(before=30, suffix="expired")

    stream = asking(harness, client, "expired", expire, retention_loss="approve")
    reader = Reader(page, stack.airflow.url)
    reader.open_stream("expired")
    reader.reads("retention_loss", "[10, 30)", "20 records", "accept_loss")
    reader.answers("accept_loss", "they were tests")
    assert client.wait_for_run("expired", "asks") == "success"
    reader.sees("expired", "up to date")
    assert head(stream) == {(harness.topic("expired"), 0): 50}
    (closed,) = closed_incidents(stream)
    assert (closed.decision.by, closed.decision.reason) == ("admin", "they were tests")


def test_a_topic_that_was_created_again(harness, client, stack, page):
    """Its records are others: read them from the start, and keep what is in the table."""

    def create_again():
        harness.delete("again")
        harness.create("again", partitions=1)
        harness.send(5, "again")

    stream = asking(harness, client, "again", create_again, topic_recreated="approve")
    reader = Reader(page, stack.airflow.url)
    reader.open_stream("again")
    reader.reads("topic_recreated", "restart")
    reader.answers("restart", "it was re-created on purpose")
    assert client.wait_for_run("again", "asks") == "success"
    reader.sees("again", "up to date")
    assert head(stream) == {(harness.topic("again"), 0): 5}


def test_a_topic_that_is_gone(harness, client, stack, page):
    """Nobody needs it any more: stop following it."""

    def delete():
        harness.delete("gone")

    stream = asking(harness, client, "gone", delete, topic_missing="approve")
    reader = Reader(page, stack.airflow.url)
    reader.open_stream("gone")
    reader.reads("topic_missing", "retire")
    reader.answers("retire", "the service was switched off")
    assert client.wait_for_run("gone", "asks") == "success"
    assert head(stream) == {}
    (closed,) = closed_incidents(stream)
    assert closed.decision.choice == "retire"


def test_a_default_stream(harness, client, stack, page, shots):
    """Its file says nothing about resets: its run fails, and the page answers in three clicks."""
    topic = harness.create("default", partitions=1)
    harness.send(10, "default")
    stream = started(harness, client, "default", kafka={"topics": [topic]})
    client.trigger("default", "lands")
    assert client.wait_for_run("default", "lands") == "success"
    harness.send(40, "default")
    harness.delete_records(before=30, suffix="default")
    client.trigger("default", "halts")
    assert client.wait_for_run("default", "halts") == "failed"
    assert "decide on the Dag's tab Stream" in client.log(
        "default", "halts", "detect_earliest_reset"
    )
    client.wait_for_dag("tideline_resolve")
    reader = Reader(page, stack.airflow.url)
    reader.open_stream("default")
    reader.reads(
        "retention_loss",
        "[10, 30)",
        "20 records",
        VERDICTS["retention_loss"].choices["accept_loss"],
    )
    expect(reader.shown.locator("#runs")).to_contain_text("halted")
    page.screenshot(path=shots / "default-halted.png")
    reader.decides("accept_loss", "they were tests")
    assert reader.clicks <= 4
    page.screenshot(path=shots / "default-decided.png")
    run = reader.triggers_a_run(client, "default")
    assert client.wait_for_run("default", run) == "success"
    reader.sees("default", "up to date")
    assert head(stream) == {(topic, 0): 50}
    (closed,) = closed_incidents(stream)
    assert (closed.decision.by, closed.decision.reason) == ("admin", "they were tests")


def test_a_run_s_offsets_are_read_again(harness, client, stack, page):
    """From the list to the cleared task: the same offsets, and one copy."""
    topic = harness.create("cleared", partitions=1)
    harness.send(10, "cleared")
    stream = started(harness, client, "cleared", kafka={"topics": [topic]})
    client.trigger("cleared", "lands")
    assert client.wait_for_run("cleared", "lands") == "success"
    before = client.tasks("cleared", "lands")["ingest_ranges"]["start_date"]
    reader = Reader(page, stack.airflow.url)
    reader.open_stream("cleared", "up to date")
    reader.click(reader.shown.get_by_role("link", name="Read the newest run"))
    page.wait_for_url("**/tasks/ingest_ranges*")
    reader.click(page.get_by_role("button", name="to clear"))
    reader.click(page.get_by_role("dialog").get_by_role("button", name="Confirm"))
    expect(page.get_by_role("dialog")).to_have_count(0)
    print(f"has cleared the task, after {reader.clicks} clicks")

    def is_read_again():
        task = client.tasks("cleared", "lands")["ingest_ranges"]
        return task["state"] == "success" and task["start_date"] != before

    wait_until(is_read_again, "it is not read again", 300)
    assert client.wait_for_run("cleared", "lands") == "success"
    assert len(table_rows(stream)) == 10
    assert reader.clicks <= 4


def test_a_window_is_landed_from_the_page(harness, client, stack, page):
    """From the list to Airflow's own form of backfills."""
    scenario = Backfilled.build(harness, client, "windows", 2)
    reader = Reader(page, stack.airflow.url)
    reader.open_stream("windows", ".*")
    reader.click(reader.shown.get_by_role("link", name="Backfill a window of time"))
    page.wait_for_url("**/dags/windows")
    reader.click(page.get_by_role("button", name="Trigger").first)
    page.get_by_role("dialog").wait_for()
    reader.click(page.get_by_text("Backfill", exact=True).last)
    for number, at in enumerate((scenario.first, scenario.last)):
        pick_time(page, number, at)
        reader.clicks += 1
    expect(page.get_by_role("dialog").first).to_contain_text("2 runs will be triggered")
    reader.click(page.get_by_role("button", name="Run Backfill"))
    expect(page.get_by_role("dialog")).to_have_count(0)
    print(f"has started a backfill, after {reader.clicks} clicks")
    (backfill,) = client.api(BackfillApi).list_backfills("windows").backfills
    client.wait_for_backfill(backfill.id, 600)
