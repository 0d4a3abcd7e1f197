"""The pictures of docs/page.md: taken here, looked at by people, kept in docs/pictures."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.page_world import AWAY, ago, at_stake, fleets, many, unasked

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES = 300_000
NAMES = (
    "many",
    "many-dark",
    "fleets",
    "incident",
    "decide",
    "coverage",
    "coverage-dark",
    "runs",
    "narrow",
    "narrow-stream",
    "brokers-away",
)


def shoot(page, shots, name, **options):
    """A picture, once everything is drawn."""
    assert name in NAMES
    page.wait_for_load_state("networkidle")
    path = shots / f"page-{name}.png"
    page.screenshot(path=path, animations="disabled", **options)


def test_the_docs_show_them():
    """Each picture is kept, small, and shown on the page about the page."""
    page = (DOCS / "page.md").read_text()
    kept = {path.name for path in (DOCS / "pictures").glob("page-*.png")}
    assert kept == {f"page-{name}.png" for name in NAMES}
    for name in kept:
        assert f"(pictures/{name})" in page
        assert (DOCS / "pictures" / name).stat().st_size < MOST_BYTES


def test_many_streams(visitor, world, shots):
    """A thousand streams, the worst first: light, and dark."""
    world.streams = many(1_000)
    shoot(visitor.streams(), shots, "many")
    shoot(visitor.streams(theme="dark"), shots, "many-dark")


def test_fleets(visitor, world, shots):
    """Three hundred streams, most of them of two fleets."""
    world.streams = fleets(300)
    shoot(visitor.streams(), shots, "fleets")


def test_one_stream(visitor, shots):
    """A stream with a gap, a loss, backfills, two generations, and an open incident."""
    page = visitor.stream()
    shoot(page, shots, "incident")
    page.locator("#coverage").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#coverage').scrollIntoView()")
    shoot(page, shots, "coverage")


def test_a_decision(visitor, world, shots):
    """An incident about which no run asks: a choice is made, and the reason is being written."""
    incident = at_stake()
    actions = (*unasked("orders", incident), *world.page.actions[1:])
    status = replace(world.page.status, state="halted")
    world.page = world.orders(actions=actions, status=status)
    page = visitor.stream()
    page.get_by_role("button", name="accept_loss").click()
    page.keyboard.type("the producer keeps a copy")
    shoot(page, shots, "decide")


def test_zoomed(visitor, shots):
    """From band to band by keyboard, and into one, in the dark."""
    page = visitor.stream(theme="dark")
    page.get_by_role("application").focus()
    for key in ("n", "n", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".stage .at_stake.chosen")).to_be_visible()
    page.evaluate("document.querySelector('#coverage').scrollIntoView()")
    shoot(page, shots, "coverage-dark")


def test_runs(visitor, shots):
    """A run is opened: its ranges, and the durations of its steps."""
    page = visitor.stream()
    page.locator(".opener").nth(1).click()
    expect(page.locator(".steps")).to_be_visible()
    page.evaluate("document.querySelector('#runs').scrollIntoView()")
    shoot(page, shots, "runs")


def test_narrow(visitor, shots):
    """The same on a telephone."""
    shoot(visitor.streams(width=390, height=844), shots, "narrow")
    shoot(visitor.stream(width=390, height=844), shots, "narrow-stream")


def test_brokers_away(visitor, world, shots):
    """No broker answers: the page says so, and shows what was known."""
    look = world.page.brokers.model_copy(update={"asked_at": ago(minutes=7), "problem": AWAY})
    status = replace(world.page.status, is_measured=False)
    world.page = world.orders(brokers=look, status=status, incidents=())
    shoot(visitor.stream(), shots, "brokers-away")
