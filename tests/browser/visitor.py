"""Somebody who opens Tideline's page, and notes whatever a page must not do."""

from urllib.parse import quote, urlsplit

from playwright.sync_api import expect

_FRAME = "can escape its sandboxing"  # Chromium says so of Airflow's frame


class Visitor:
    """Opens pages of a server.

    Args:
        browser: Playwright's.
        root: The server's address.
    """

    def __init__(self, browser, root):
        self.root = root
        self.requests = []
        self.troubles = []  # errors of scripts, and what the policy has forbidden
        self.expected = [_FRAME]  # parts of troubles that are no fault of the page, or planted
        self._browser = browser
        self._contexts = []

    def open(self, query="", width=1280, height=800, theme="light", path="/tideline/", **options):
        """A page in a window of that size."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, **options
        )
        self._contexts.append(context)
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("page", self._watch)
        page = context.new_page()
        page.goto(f"{self.root}{path}{query}")
        return page

    def stream(self, name="orders", **options):
        """The page of a stream, with all its parts."""
        page = self.open(f"?stream={quote(name)}", **options)
        expect(page.get_by_role("heading", name="Explain a record")).to_be_visible()
        expect(page.locator(".partitions tbody tr").first).to_be_visible()
        return page

    def streams(self, query="", **options):
        """The page of all streams, with its rows."""
        page = self.open(query, **options)
        expect(page.locator(".list tbody tr").first).to_be_visible()
        return page

    def refreshed(self, page):
        """Let the page ask again, and wait for the answers."""
        with page.expect_response(lambda answer: "/api/v1/streams" in answer.url):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_load_state("networkidle")

    def leave(self):
        """Close everything; what was noted must be nothing."""
        for context in self._contexts:
            context.close()
        here = urlsplit(self.root).netloc
        assert {urlsplit(url).netloc for url in self.requests} <= {here, ""}
        left = [t for t in self.troubles if not any(e in t for e in self.expected)]
        assert not left, left

    def _watch(self, page):
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", lambda dialog: self._dialog(dialog))
        page.on("console", lambda message: self._said(message))

    def _dialog(self, dialog):
        self.troubles.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.troubles.append(message.text)
