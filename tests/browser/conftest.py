"""One Airflow for this folder, and a browser."""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.airflow_fixtures import airflow_harness, client, spark_connections, stack, statsd

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


@pytest.fixture
def shots(tmp_path):
    """Where screenshots go."""
    found = Path(os.environ.get("TIDELINE_SCREENSHOTS") or tmp_path)
    found.mkdir(parents=True, exist_ok=True)
    return found
