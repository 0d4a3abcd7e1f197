"""One stream's page: its coverage, partitions, runs, incidents, records, and ways out."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.page_logs import wide
from tests.browser.page_world import runs
from tideline.contract.answers import Explained

pytestmark = pytest.mark.slow


def bands(page):
    """Kinds of the drawn bands, by row and place."""
    return [
        (json.loads(band.get_attribute("data-band")), band.get_attribute("data-kind"))
        for band in page.locator(".stage [data-band]").all()
    ]


def shown(page):
    """The offsets that the picture shows."""
    text = page.locator(".readout").inner_text()
    start, end = text[text.index("[") + 1 : -1].split(", ")
    return int(start.replace(",", "")), int(end.replace(",", ""))


def test_the_picture_equals_the_table(visitor, world):
    """Each band is drawn, in its kind's colour and pattern, and stands in the table."""
    page = visitor.stream()
    expect(page.locator(".stage [data-band]").first).to_be_attached()
    drawn = sorted(bands(page))
    page.get_by_role("button", name="Show as a table").click()
    lines = page.locator(".bandtable tbody tr").all()
    kinds = [line.get_attribute("data-kind") for line in lines]
    assert [kind for _, kind in drawn] == kinds
    assert set(kinds) == {
        "landed",
        "backfilled",
        "accepted_loss",
        "at_stake",
        "open",
        "gap",
        "unread",
    }
    by_lag = sorted(world.partitions, key=lambda one: -(one.lag or 0))
    wanted = [
        (
            f"{one.topic}-{one.partition}",
            str(log.generation),
            f"{band.start_offset:,}",
            f"{band.end_offset:,}",
        )
        for one in by_lag
        for log in one.logs
        for band in log.bands
    ]
    cells = page.evaluate(
        "[...document.querySelectorAll('.bandtable tbody tr')]"
        ".map(line => [...line.cells].map(cell => cell.innerText))"
    )
    assert [(cell[0], cell[1], cell[4], cell[5]) for cell in cells] == wanted


def test_bands_are_to_scale(visitor):
    """Widths are as offsets; 800 of five million stay visible, with a flag and their numbers."""
    page = visitor.stream()

    def width(kind):
        return page.locator(f".strips rect[data-kind={kind}]").first.bounding_box()["width"]

    assert width("at_stake") / width("gap") == pytest.approx(148_300 / 120_000, rel=0.1)
    assert width("landed") / width("at_stake") == pytest.approx(2_920_000 / 148_300, rel=0.1)
    needle = page.locator(".needle.accepted_loss")
    assert needle.locator(".line").bounding_box()["width"] >= 1
    expect(needle.locator(".flag")).to_be_attached()
    expect(needle.locator("title")).to_have_text("accepted as lost [2,610,000, 2,610,800)")


def test_keyboard(visitor):
    """Zoom, pan, all again, from band to band, into a band: without a mouse."""
    page = visitor.stream()
    stage = page.get_by_role("application")
    stage.focus()
    whole = shown(page)
    page.keyboard.press("+")
    expect(page.locator(".readout")).not_to_contain_text("all offsets")
    half = shown(page)
    assert half[1] - half[0] == pytest.approx((whole[1] - whole[0]) / 2, abs=2)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".readout")).not_to_contain_text(f"{half[0]:,}")
    assert shown(page)[0] < half[0]
    page.keyboard.press("-")
    page.keyboard.press("0")
    expect(page.locator(".readout")).to_contain_text("all offsets")
    assert shown(page) == whole
    page.keyboard.press("n")
    expect(page.locator(".readout")).to_contain_text(
        "orders-5, generation 0: landed [1,200,000, 4,120,000)"
    )
    page.keyboard.press("n")
    expect(page.locator(".readout")).to_contain_text(
        "at stake [4,120,000, 4,268,300), 148,300 offsets"
    )
    page.keyboard.press("Enter")
    zoomed = page.locator(".strips rect[data-kind=at_stake]")
    expect(zoomed).to_have_class("band at_stake chosen")
    assert zoomed.bounding_box()["width"] > 500
    expect(stage).to_be_focused()


def test_zoom_stays_over_a_refresh(visitor, world):
    """New offsets arrive; what is shown stays."""
    page = visitor.stream()
    readout = page.locator(".readout")
    page.get_by_role("button", name="Zoom in").click()
    expect(readout).not_to_contain_text("all offsets")
    zoomed = readout.inner_text()
    page.get_by_role("button", name="Pan to lower offsets").click()
    expect(readout).not_to_have_text(zoomed)
    before = shown(page)
    world.partitions = [one for one in world.partitions if one.partition != 11]
    world.partitions.append(world.partitions[0].model_copy(update={"partition": 11}))
    visitor.refreshed(page)
    assert shown(page) == before
    expect(page.get_by_role("button", name="Pan to lower offsets")).to_be_focused()


def test_ten_thousand_partitions(visitor, world):
    """They come some at a time; the line above tells the skew of all of them."""
    world.partitions = wide("orders", 10_000)
    page = visitor.stream()
    rows = page.locator(".partitions tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("orders-4321")
    expect(page.locator(".skew")).to_contain_text("the largest has")
    expect(page.locator(".paging")).to_contain_text("1 to 50 of 10,000 partitions")
    page.get_by_role("button", name="Next page").click()
    expect(page.locator(".paging")).to_contain_text("51 to 100 of 10,000")
    page.get_by_role("button", name="Last page").click()
    expect(page.locator(".paging")).to_contain_text("9,951 to 10,000 of 10,000")
    expect(page.get_by_role("button", name="Next page")).to_be_disabled()
    page.get_by_role("columnheader", name="Partition").get_by_role("button").click()
    expect(rows.first).to_contain_text("orders-0")
    page.get_by_label("at a time").select_option("200")
    expect(rows).to_have_count(200)


def test_an_open_incident(visitor):
    """What was found, what is at stake, the choices and what to do next stand at the top."""
    page = visitor.stream()
    card = page.get_by_role("article", name="incident-31: retention_loss")
    for text in (
        "orders-5",
        "Records were deleted before they were read.",
        "log start 4,268,300",
        "[4,120,000, 4,268,300)",
        "at most 148,300 records",
        "accept_loss",
        "Raise the retention or run more often, then decide.",
    ):
        expect(card).to_contain_text(text)
    runbook = card.get_by_role("link", name="retention_loss")
    address = "https://docs.example/tideline/incidents-and-errors/#retention_loss"
    assert runbook.get_attribute("href") == address
    closed = page.locator("#closed details").first
    closed.locator("summary").click()
    expect(closed).to_contain_text("the platform team re-created it with twelve partitions")
    visitor.refreshed(page)
    expect(closed).to_have_attribute("open", "")


def test_a_run(visitor):
    """A run's ranges and the durations of its steps, asked from Airflow when it is opened."""
    page = visitor.stream()
    assert not any("/taskInstances" in url for url in visitor.requests)
    name = runs(2).runs[1].run_id
    opener = page.locator(".opener").nth(1)
    opener.click()
    details = page.locator(".rundetails")
    expect(details).to_contain_text(name)
    expect(details).to_contain_text("ingest_ranges")
    expect(details).to_contain_text("47 s")
    expect(details).to_contain_text("success, try 2")
    expect(details).to_contain_text("[4,682,000, 4,691,000)")
    expect(opener).to_have_attribute("aria-expanded", "true")
    visitor.refreshed(page)
    expect(details).to_contain_text("47 s")
    opener.click()
    expect(details).to_have_count(0)


def test_a_record(visitor, world):
    """Topic, partition and offset give a sentence; a refresh leaves it."""
    text = "orders-2@2610400 is lost: accepted by dana with incident-22"
    world.answered["orders", 2, 2_610_400] = Explained(
        topic="orders",
        partition=2,
        offset=2_610_400,
        outcome="accepted_loss",
        text=text,
        topic_id="8f14e45f",
        generation=0,
        next_offset=4_690_000,
        run_id=None,
        table_version=None,
        decoded=None,
    )
    page = visitor.stream()
    expect(page.get_by_label("Topic", exact=True)).to_have_value("orders")
    page.get_by_label("Partition", exact=True).fill("2")
    page.get_by_label("Offset", exact=True).fill("2,610,400")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".answer")).to_contain_text(text)
    visitor.refreshed(page)
    expect(page.locator(".answer")).to_contain_text(text)
    visitor.expected.append("404")
    page.get_by_label("Offset", exact=True).fill("7")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("no such stream")


def test_ways_to_airflow(visitor):
    """Each way leads to Airflow's own form; its values can be copied."""
    page = visitor.stream()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the values: Backfill skipped offsets").click()
    expect(page.locator("#live")).to_have_text("copied")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    (passed,) = copied
    assert (passed["start_offset"], passed["end_offset"]) == (3_300_000, 3_420_000)
    link = page.get_by_role("link", name="Backfill a window of time")
    assert link.get_attribute("href") == f"{visitor.root}/dags/orders"


def test_what_is_in_quarantine(visitor):
    """A fact leads to the classes and to some records; of what they hold, nothing is shown."""
    page = visitor.stream()
    page.locator("#facts").get_by_role("link", name="1,211").click()
    part = page.locator("#quarantine")
    expect(part.locator(".classes li")).to_have_text(["framing 1,204", "unknown_schema 7"])
    first = part.locator("tbody tr").first
    expect(first).to_contain_text("orders-0 @ 4,100,000")
    expect(first).to_contain_text("3 bytes; a frame has 5 and more")


def test_lag_and_duration_by_hour(visitor):
    """A bar for each hour that has runs, an axis in hours with a zone, and what the pace means."""
    page = visitor.stream()
    charts = page.locator("figure.pace")
    expect(charts).to_have_count(2)
    assert [charts.nth(n).locator("rect").count() for n in (0, 1)] == [23, 23]
    axis = charts.first.locator(".ticks")
    expect(axis.last).to_contain_text("now (UTC)")
    assert axis.first.inner_text().split() == ["3.3", "M", "0"]
    expect(page.locator("#facts")).to_contain_text("caught up in 14 h at this pace")


@pytest.mark.parametrize("width", [360, 390, 900])
def test_narrow(visitor, width):
    """A narrow window scrolls down, never sideways."""
    page = visitor.stream(width=width)
    page.locator(".opener").nth(1).click()
    expect(page.locator(".rundetails")).to_contain_text("47 s")
    inner, scroll = page.evaluate("[window.innerWidth, document.documentElement.scrollWidth]")
    assert scroll <= inner


@pytest.mark.parametrize("width", [1280, 390])
def test_an_incident_stands_first(visitor, width):
    """Whoever is on call reads what happened before any figure; four facts, and the rest folded."""
    page = visitor.stream(width=width)
    shown = page.locator(".incident.open").first
    expect(shown).to_be_visible()
    assert shown.bounding_box()["y"] < 200
    facts = page.locator("#facts > .body > dl > .fact")
    assert [*facts.locator("dt").all_inner_texts()][:4] == [
        "Lag",
        "Oldest unread",
        "Headroom",
        "Last landed run",
    ]
    more = page.locator("details.more")
    expect(more.get_by_text("Cluster", exact=True)).to_be_hidden()
    more.locator("summary").click()
    expect(more.get_by_text("Cluster", exact=True)).to_be_visible()
    visitor.refreshed(page)
    expect(more.get_by_text("Cluster", exact=True)).to_be_visible()
