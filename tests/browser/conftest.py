"""A browser; one Airflow for this folder, or a world that the page is shown instead."""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.page_server import serving
from tests.browser.page_world import World
from tests.browser.visitor import Visitor
from tests.worlds.airflow_fixtures import airflow_harness, client, spark_connections, stack, statsd

__all__ = ["airflow_harness", "client", "spark_connections", "stack", "statsd"]
expect.set_options(timeout=60_000)  # a busy machine shows a page before its data
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert chromium, "no Chromium: `make test-browser` installs it"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=list(_QUIET))
        yield found
        found.close()


@pytest.fixture
def page(browser, stack):
    """A logged-in page of the embedded Airflow."""
    found = browser.new_page(viewport={"width": 1400, "height": 900})
    found.goto(f"{stack.airflow.url}/auth/login")
    found.get_by_label("Username").fill(stack.airflow.username)
    found.get_by_label("Password").fill(stack.airflow.password)
    found.get_by_role("button", name="Sign in").click()
    found.wait_for_url(lambda url: "login" not in url)
    yield found
    found.close()


@pytest.fixture
def world():
    """The answers that Tideline's page is shown."""
    return World()


@pytest.fixture
def visitor(browser, world):
    """Opens Tideline's page on `world`; nothing may leave the origin or break the policy."""
    with serving(world) as root:
        found = Visitor(browser, root)
        yield found
        found.leave()


@pytest.fixture
def shots(tmp_path):
    """Where screenshots go."""
    found = Path(os.environ.get("TIDELINE_SCREENSHOTS") or tmp_path)
    found.mkdir(parents=True, exist_ok=True)
    return found
