"""Hostile names, missing rights, a frame with few rights, and people who do not see or point."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.page_server import ASSETS
from tests.browser.page_world import AWAY, ago, at_stake, listed, status

pytestmark = pytest.mark.slow
_CONTRAST = Path(__file__).with_name("contrast.js")
EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


def test_hostile_texts_are_texts(visitor, world):
    """Names, reasons, ids and addresses of others are shown, and none of them runs."""
    script = "javascript:alert(3)"
    world.streams = [listed(EVIL, status(EVIL, "halted", last_run=EVIL), topics=EVIL, table=EVIL)]
    page = visitor.streams()
    expect(page.locator(".list tbody .name")).to_have_text(EVIL)
    world.page = world.orders(
        topics=EVIL,
        table=EVIL,
        cluster_id=EVIL,
        schedule=EVIL,
        incidents=(at_stake().model_copy(update={"topic": EVIL, "actual": EVIL, "reason": EVIL}),),
        docs=script,
        actions=tuple(
            one.model_copy(update={"url": script, "title": EVIL}) for one in world.page.actions
        ),
    )
    hostile = {"topic": EVIL}
    world.partitions = [one.model_copy(update=hostile) for one in world.partitions]
    page = visitor.stream()
    page.locator(".opener").nth(1).click()
    page.get_by_role("button", name="Show as a table").click()
    expect(page.locator(".bandtable")).to_contain_text(EVIL)
    assert page.locator("img, main script, [onerror]").count() == 0
    hrefs = page.eval_on_selector_all("a", "all => all.map(one => one.protocol)")
    assert set(hrefs) <= {"http:", "https:"}


def test_no_text_is_read_as_html():
    """No script makes elements of a text; the page itself has no script or style inside."""
    for file in ASSETS.glob("*.js"):
        text = file.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text
        ), file
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), file
    index = (ASSETS / "index.html").read_text()
    assert not re.search(r"<style|style=|<script>|\son\w+=", index)
    listed_files = set(re.findall(r'(?:src|href)="assets/([^"]+)"', index))
    assert listed_files == {file.name for file in ASSETS.iterdir()} - {"index.html"}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (401, "You are not logged in. Log in to Airflow."),
        (403, "You have no right to see this."),
        (404, "There is no such stream, or you have no right to read it."),
        (503, "This cannot be shown now."),
    ],
)
def test_refusals(visitor, world, code, text):
    """The page says why it shows nothing; what it has shown stays, with its age."""
    visitor.expected.append(str(code))
    page = visitor.stream()
    world.refused["*"] = (code, "Refused", "the ledger says no")
    visitor.refreshed(page)
    expect(page.locator("#notices")).to_contain_text(text.replace("Airflow.", "Airflow"))
    expect(page.locator(".headline")).to_contain_text("orders")
    world.refused.clear()
    visitor.refreshed(page)
    expect(page.locator("#notices")).not_to_contain_text(text[:12])
    world.refused["*"] = (code, "Refused", "the ledger says no")
    page = visitor.open("?stream=orders")
    expect(page.locator("#notices")).to_contain_text(text[:20])


def test_one_part_without_an_answer(visitor, world):
    """The history is slow: runs say so in their place, and everything else is shown."""
    visitor.expected.append("503")
    world.refused["streams/orders/runs"] = (
        503,
        "ServiceAway",
        "the ledger has not answered within 8 s",
    )
    page = visitor.stream()
    expect(page.locator("#runs")).to_contain_text("the ledger has not answered within 8 s")
    expect(page.locator("#notices")).to_have_text("")
    world.refused.clear()
    visitor.refreshed(page)
    expect(page.locator("#runs")).not_to_contain_text("has not answered")
    expect(page.locator(".opener").first).to_be_visible()


def test_services_away(visitor, world):
    """Who cannot be asked is said once, with the age of what is shown."""
    look = world.page.brokers.model_copy(update={"asked_at": ago(minutes=7), "problem": AWAY})
    world.page = world.orders(brokers=look)
    page = visitor.stream()
    expect(page.locator("#notices")).to_contain_text("The brokers do not answer.")
    expect(page.locator("#notices")).to_contain_text("was known 7 min ago")
    expect(page.locator("#notices")).to_contain_text(AWAY)
    denied = "topic orders: TopicAuthorizationFailedError"
    doubted = replace(world.page.status, is_measured=False, problem=denied)
    world.page = world.orders(status=doubted)
    visitor.refreshed(page)
    expect(page.locator("#notices")).to_contain_text(denied)
    expect(page.locator("#notices")).to_contain_text("The lag is what the last run saw.")
    never = world.page.ledger.model_copy(update={"asked_at": None, "problem": "no such table"})
    world.page = world.orders(ledger=never, status=None)
    visitor.refreshed(page)
    expect(page.locator("#notices")).to_contain_text("The ledger does not answer.")
    expect(page.locator(".headline")).to_contain_text("unknown")


@pytest.mark.parametrize("apart", [False, True])
def test_links_leave_the_frame(visitor, apart):
    """Airflow's frame allows neither windows nor its host's navigation; links work all the same."""
    page = visitor.open("?theme=dark&page=?stream=orders", path="/host")
    link = page.frame_locator("iframe").get_by_role("link", name="Backfill a window of time")
    if apart:
        with page.context.expect_page() as opened:
            link.click(modifiers=["Control"])
        opened.value.wait_for_url(f"{visitor.root}/dags/orders")
        assert page.url.startswith(f"{visitor.root}/host")
    else:
        link.click()
        page.wait_for_url(f"{visitor.root}/dags/orders")


def test_the_theme_is_airflows(visitor):
    """The host's class decides, at once when it changes; alone, what Airflow keeps does."""
    page = visitor.open("?theme=dark&page=", path="/host", theme="light")
    html = page.frame_locator("iframe").locator("html")
    expect(html).to_have_attribute("data-theme", "dark")
    page.evaluate("document.documentElement.className = 'light'")
    expect(html).to_have_attribute("data-theme", "light")
    alone = visitor.open(theme="dark")
    expect(alone.locator("html")).to_have_attribute("data-theme", "dark")
    alone.evaluate("localStorage.setItem('theme', 'light')")
    alone.reload()
    expect(alone.locator("html")).to_have_attribute("data-theme", "light")


@pytest.mark.parametrize("query", ["", "?stream=orders"])
def test_everything_has_a_name(visitor, query):
    """Controls have names, tables captions, parts headings; colours have contrast enough (AA)."""
    page = visitor.stream() if query else visitor.streams()
    nameless = page.evaluate("""() => [...document.querySelectorAll("button, a, input, select")]
        .filter(one => one.checkVisibility() && !one.ariaLabel && !one.labels?.length)
        .filter(one => !one.textContent.trim())
        .map(one => one.outerHTML)""")
    assert nameless == []
    assert page.locator("table:not(:has(> caption))").count() == 0
    assert page.locator("main").count() == page.locator("h1").count() == 1
    ids = page.eval_on_selector_all("[id]", "all => all.map(one => one.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("query", ["", "?stream=orders"])
def test_contrast(visitor, theme, query):
    """Each visible text has 4.5 to 1 against what is behind it."""
    page = visitor.stream(theme=theme) if query else visitor.streams(theme=theme)
    assert page.evaluate(_CONTRAST.read_text()) == []
