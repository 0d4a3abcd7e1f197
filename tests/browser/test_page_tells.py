"""Nothing that matters is left out, called by a wrong word, or cut off."""

from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from tests.browser.page_world import ago, at_stake, listed, now, run_of, runs, status, unasked
from tideline.contract.page import Day

pytestmark = pytest.mark.slow
OLD = "the brokers were asked before the ledger's last change"
CUT = """all => all.filter(
  one => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight).length"""
OUTSIDE = """all => all.map(badge => [badge, badge.closest('td, th, div')]).filter(
  ([badge, cell]) => badge.getBoundingClientRect().right > cell.getBoundingClientRect().right + 0.5)
  .map(([badge]) => badge.textContent)"""


def airflows(run_id, state, ended):
    """A run as Airflow tells it."""
    at = ended.isoformat().replace("+00:00", "Z")
    facts = {"run_after": at, "end_date": at, "run_type": "scheduled"}
    return {"dag_run_id": run_id, "state": state, "triggering_user_name": None, **facts}


def line(page, text):
    return page.locator(".runs tbody tr").filter(has_text=text)


def test_failed_and_halted_runs_stand_among_the_others(visitor, world):
    """The ledger keeps no record of them, or one that reads as if all were well."""
    planned = runs(1).runs[0]
    world.airflows = [
        airflows(planned.run_id, "failed", ago(minutes=2)),
        airflows("during", "failed", ago(minutes=70)),  # incident-31 is open for two hours
        airflows(world.page.incidents[0].run_id, "failed", ago(minutes=75)),
        airflows("before", "failed", ago(minutes=150)),
        airflows("other", "success", ago(minutes=151)),
        airflows("goes-on", "running", ago(minutes=0)),
    ]
    page = visitor.stream()
    page.get_by_role("button", name="Show more runs").click()
    expect(line(page, "during")).to_contain_text("halted")
    expect(line(page, "during")).to_contain_text("while incident-31 was open")
    expect(page.locator(".runs tbody").get_by_text("at incident-31", exact=True)).to_have_count(1)
    expect(line(page, "before")).to_contain_text("failed")
    expect(line(page, "goes-on")).to_contain_text("running")
    expect(page.locator(".runs tbody tr .badge.bad")).to_have_count(4)
    expect(line(page, "other")).to_have_count(0)
    names = page.locator(".runs tbody th .runname").all_text_contents()
    assert names.index("goes-on") < names.index("during") < names.index("before")


def test_how_long_a_run_waited_for_its_slot_is_said(visitor, world):
    """Airflow alone knows it; where it does not tell, nothing is made up."""
    first = runs(1).runs[0]
    slot = {"queued_at": "2026-11-25T16:00:00Z", "start_date": "2026-11-25T16:01:37.5Z"}
    world.airflows = [airflows(first.run_id, "success", ago(minutes=2)) | slot]
    page = visitor.stream()
    for number in range(2):
        page.locator(".opener").nth(number).click()
    details = page.locator(".rundetails")
    expect(details.first).to_contain_text("1 min 37 s for a slot of Airflow")
    expect(details.nth(1)).not_to_contain_text("waited")


def test_a_failed_run_says_why(visitor, world):
    """The last error stands on the page, beside the way to the task's log."""
    failed = runs(3).runs[2]
    world.airflows = [airflows(failed.run_id, "failed", ago(minutes=2))]
    world.log = [
        {"event": "task begins", "level": "info"},
        {
            "event": "Task failed with exception",
            "level": "error",
            "error_detail": [{"exc_type": "X", "exc_value": "table orders: no space is left"}],
        },
    ]
    world.tasks = [{**world.tasks[3], "state": "failed"}]
    world.page = world.orders(incidents=(), status=status("orders", "behind", offset_lag=7))
    page = visitor.stream()
    fact = page.locator("#facts > .body > dl > .fact").filter(has_text="Last run")
    expect(fact).to_contain_text("table orders: no space is left")
    log = f"/runs/{failed.run_id}/tasks/ingest_ranges?try_number=2"
    link = fact.get_by_role("link", name="failed in ingest_ranges")
    assert unquote(link.get_attribute("href")).endswith(log)
    expect(page.locator(".headline")).to_contain_text("last run failed")
    page.locator(".opener").nth(2).click()
    expect(page.locator(".steps")).to_contain_text("no space is left")
    step = page.locator(".steps").get_by_role("link", name="ingest_ranges")
    assert unquote(step.get_attribute("href")).endswith(log)
    world.paused = {"orders"}
    visitor.refreshed(page)
    expect(page.locator(".headline")).to_contain_text("paused")
    expect(page.locator("#facts > .body > dl")).to_contain_text("no run begins")


def test_a_last_run_that_halted_at_an_open_incident_only_names_it(visitor, world):
    """The incident stands above, in full; its text once more would be the longest of the facts."""
    failed = runs(3).runs[2]
    world.airflows = [airflows(failed.run_id, "failed", ago(minutes=2))]
    (incident,) = world.page.incidents
    world.log = [{"event": f"{incident.id}: orders-1: {'long ' * 99}", "level": "error"}]
    world.tasks = [{**world.tasks[3], "state": "failed"}]
    page = visitor.stream()
    fact = page.locator("#facts > .body > dl > .fact").filter(has_text="Last run")
    expect(fact).to_contain_text(f"halted at {incident.id}")
    expect(fact).not_to_contain_text("long")


def test_a_run_that_finished_another_ones_plan_says_so(visitor, world, monkeypatch):
    """Rows count once: in the run whose plan it was."""
    owner, other = runs(3).runs[1:]
    finisher = other.model_copy(
        update={"finishes": owner.run_id, "offsets": None, "rows": None, "table_version": None}
    )
    answer = type(world).answer

    def answered(self, parts, query):
        found = answer(self, parts, query)
        both = {"runs": (finisher, owner)}
        return found.model_copy(update=both) if parts[2:] == ["runs"] else found

    monkeypatch.setattr(type(world), "answer", answered)
    page = visitor.stream()
    first = page.locator(".runs tbody tr").first
    expect(first).to_contain_text("finished the plan of")
    assert first.locator("td.rows").inner_text() == "\u2013"
    assert page.locator(".runs tbody tr").nth(1).locator("td.rows").inner_text() == "36,000"


def test_a_run_that_halts_is_not_called_a_proposal(visitor, world, monkeypatch):
    """Its record is one; the incidents that it halts at say what it is."""
    held = runs(1).runs[0].model_copy(update={"status": "proposed", "incidents": ("incident-31",)})
    answer = type(world).answer

    def answered(self, parts, query):
        found = answer(self, parts, query)
        return found.model_copy(update={"runs": (held,)}) if parts[2:] == ["runs"] else found

    monkeypatch.setattr(type(world), "answer", answered)
    page = visitor.stream()
    expect(page.locator(".runs td.status .badge")).to_have_text("■halted")
    expect(page.locator(".runs td.status")).to_contain_text("at incident-31")
    expect(page.locator("#runs")).not_to_contain_text("propos")


@pytest.mark.parametrize("width", [390, 1280])
def test_reasons_are_seen_whole(visitor, world, width):
    """The reason is what a person looks for: no part of it hides in a title."""
    doubted = status("doubted", "behind", offset_lag=7, is_measured=False, problem=OLD)
    warned = "b.yaml also says stream: two; a.yaml is what counts"
    world.streams = [
        listed("doubted", doubted),
        listed("two", status("two", "up_to_date"), warning=warned),
    ]
    page = visitor.streams(width=width)
    expect(page.locator(".sub.warn")).to_have_text([OLD, warned])
    assert page.eval_on_selector_all(".sub.warn", CUT) == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_what_is_to_be_copied_is_seen_and_copied_whole(visitor, world, width):
    """Commands with the path of their file, and JSON, in a column of 300 pixels."""
    world.page = world.orders(actions=(*unasked("orders", at_stake()), *world.page.actions[1:]))
    grants = {"permissions": ["clipboard-read", "clipboard-write"]}
    page = visitor.stream(width=width, **grants)
    texts = page.locator(".actions pre")
    expect(texts).to_have_count(3)
    assert page.eval_on_selector_all(".actions pre", CUT) == 0
    page.get_by_role("button", name="Copy the command: Answer incident-31").click()
    expect(page.locator("#live")).to_have_text("copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == world.page.actions[0].command
    assert copied.startswith("tideline resolve '/srv/data platform/streams/orders.yaml' --incident")


def test_no_badge_leaves_its_place_on_a_telephone(visitor, world):
    """Whatever it says."""
    world.streams = [listed(s, status(s, s, open_incidents=120)) for s in ("waiting", "never_run")]
    page = visitor.stream(width=390)
    expect(page.locator(".runs .badge").filter(has_text="nothing to do").first).to_be_visible()
    assert page.eval_on_selector_all(".badge", OUTSIDE) == []
    assert visitor.streams(width=390).eval_on_selector_all(".badge", OUTSIDE) == []


def test_one_day_is_no_curve(visitor, world):
    """A new stream has landed on one day: its numbers are shown, and no sliver beside them."""
    today = Day(day=f"{now():%Y-%m-%d}", rows=1_200, bytes=99_000, unread=0, headroom_seconds=None)
    up = status("new", "up_to_date", last_run=run_of(3))
    world.streams = [listed("new", up, days=(today,)), listed("old", up)]
    page = visitor.streams()
    fresh = page.get_by_role("row").filter(has_text="lake/raw/new")
    expect(fresh).to_contain_text("1.2 k rows")
    assert fresh.locator("svg").count() == 0
    assert page.get_by_role("row").filter(has_text="lake/raw/old").locator("svg").count() == 1


@pytest.mark.parametrize(
    ("docs", "href"),
    [
        ("docs", "/tideline/docs/incidents-and-errors.md#retention_loss"),
        ("https://docs.example/t/", "https://docs.example/t/incidents-and-errors/#retention_loss"),
    ],
)
def test_the_runbook_is_a_link(visitor, world, docs, href):
    """To the docs' site; to the page's own copy where none is named, as under `make up`."""
    world.page = world.orders(docs=docs)
    page = visitor.stream()
    link = page.locator(".incident.open .runbook a")
    assert link.evaluate("a => a.href").endswith(href)


def test_two_files_of_one_stream_are_said(visitor, world):
    """Above everything: what is shown may not be what its author wrote."""
    warned = "b.yaml also says stream: orders; orders.yaml is what counts"
    world.page = world.orders(warning=warned)
    expect(visitor.stream().locator("#notices")).to_contain_text(warned)
