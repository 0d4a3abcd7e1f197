"""Airflow's page, as far as the tests use it."""

from contextlib import suppress

from playwright.sync_api import TimeoutError


def open_form(page, address):
    """Open a Dag's page and its trigger form."""
    page.goto(address)
    page.get_by_role("button", name="Trigger").first.click()
    page.get_by_role("dialog").wait_for()


def pick_time(page, number, at):
    """Type a time into one of the form's pickers."""
    page.get_by_test_id("datetime-input").nth(number).click()
    page.get_by_placeholder("YYYY/MM/DD").last.fill(f"{at:%Y/%m/%d}")
    page.get_by_placeholder("HH:mm").last.fill(f"{at:%H:%M}")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    page.get_by_placeholder("HH:mm").last.wait_for(state="hidden")


def shoot(page, path):
    """A screenshot of the whole page, once it has settled; one that asks on and on never does."""
    with suppress(TimeoutError):
        page.wait_for_load_state("networkidle", timeout=5_000)
    page.screenshot(path=path, full_page=True)
