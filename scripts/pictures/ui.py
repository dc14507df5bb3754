"""Pictures of scaler_ui."""

from __future__ import annotations

from pathlib import Path

from tests.support.browser import Watched, chromium
from tests.support.commands import Command, child_environment, command_line

PICTURES = (
    ("overview", "dark", (1280, 1000)),
    ("stream", "dark", (1280, 720)),
    ("workers", "light", (1280, 560)),
    ("tasks", "light", (1280, 640)),
    ("failures", "dark", (1280, 720)),
    ("waiting", "light", (1280, 640)),
    ("graphs", "dark", (1280, 420)),
)
SETTLED_MILLISECONDS = 2500


def _take_graph(watched: Watched, folder: Path) -> None:
    """The page of a graph that runs."""
    watched.page.set_viewport_size({"width": 1280, "height": 800})
    watched.page.locator(".graph a").first.click(timeout=60_000)
    watched.page.wait_for_timeout(SETTLED_MILLISECONDS)
    watched.page.screenshot(path=folder / "ui-graph.png")


def take(monitor_address: str, folder: Path) -> None:
    with Command(command_line("scaler_ui", monitor_address, "--port", 0), child_environment()) as ui:
        url = ui.wait_for_output(r"open (http://\S+)")[1]
        with chromium() as browser, Watched(browser, url) as watched:
            watched.page.wait_for_timeout(40_000)  # charts need a past
            for view, theme, (width, height) in PICTURES:
                watched.page.set_viewport_size({"width": width, "height": height})
                if watched.page.evaluate("document.documentElement.dataset.theme") != theme:
                    watched.page.keyboard.press("t")
                watched.open(view)
                if view == "stream":
                    watched.page.select_option("select[aria-label='Time shown']", "10")
                watched.page.wait_for_timeout(SETTLED_MILLISECONDS)
                watched.page.screenshot(path=folder / f"ui-{view}.png")
            _take_graph(watched, folder)
            assert not watched.errors, watched.errors
