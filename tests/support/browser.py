"""Debian's chromium, headless, driven by Playwright; tests are skipped where it is not there."""

import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def browser():
    """A running browser, or a skip that says what is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


class Page:
    """A page that was opened, with all that it complained about or asked for."""

    def __init__(self, running, path, width):
        self.page = running.new_page(viewport={"width": width, "height": 900})
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.resolve().as_uri())
        self.page.wait_for_selector("body[data-ready]", timeout=20_000)

    def column(self, table, number):
        """Texts of a column of a table."""
        cells = self.page.locator(f"#{table} tbody tr td:nth-child({number})")
        return [text.split(" ±")[0] for text in cells.all_inner_texts()]
