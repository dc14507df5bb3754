"""A headless Chromium for tests of the web monitor."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = ["--disable-gpu", "--disable-dev-shm-usage", "--no-sandbox"]
"""Chromium refuses to sandbox the user root, and cannot sandbox others in most containers. The pages are our own."""

TIMEOUT_MILLISECONDS = 40_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips the test where there is no Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, with every address it asked for and every error it reported."""

    def __init__(self, browser: Browser, url: str, width: int = 1280, height: int = 800) -> None:
        self.url = url
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": width, "height": height})
        self.page.set_default_timeout(TIMEOUT_MILLISECONDS)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda websocket: self.requests.append(websocket.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.goto(url)

    def open(self, view: str) -> None:
        """A view, by the name in its address."""
        self.page.evaluate("name => { location.hash = '#/' + name }", view)
        self.page.wait_for_selector(f"nav a[href='#/{view}'][aria-current]")

    def wait_for_text(self, text: str, within: str = "body") -> None:
        self.page.locator(within).get_by_text(text).first.wait_for()

    def wait_until(self, script: str, argument: object = None) -> None:
        """Until a JavaScript expression is true."""
        self.page.wait_for_function(script, arg=argument)

    def close(self) -> None:
        self.page.close()

    def _on_console(self, message: object) -> None:
        if getattr(message, "type", "") == "error":
            self.errors.append(getattr(message, "text", ""))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
