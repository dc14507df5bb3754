"""``scaler_ui`` in a headless Chromium, fed with a made-up stream and by real clusters."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
import zmq

from scaler import Client
from scaler.utility.exceptions import ActorDiedError
from scaler_protocol.address import default_monitor_address
from scaler_protocol.messages import Status
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.failures import Failure
from scaler_protocol.monitor.feed import SNAPSHOT_KIND
from scaler_protocol.monitor.model import Model
from scaler_scheduler.top.report import report_of
from scaler_scheduler.web.connection_limits import ADMIT_BYTES, ADMIT_SECONDS, CONNECTIONS_LIMIT
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.browser import Watched, chromium
from tests.support.commands import Command, child_environment, command_line, run_command, start_cluster, start_scheduler
from tests.support.monitor_stream import synthetic_messages
from tests.support.monitoring import monitor_address_with_keys, snapshot
from tests.support.ports import free_address, free_port
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VIEWS = (
    "overview", "stream", "running", "actors", "progress", "alerts", "workers", "processes", "tasks", "functions",
    "waiting", "failures", "graphs", "memory", "objects", "clients", "settings",
)  # fmt: skip
PHONE, LAPTOP, DESKTOP = (390, 844), (1280, 800), (1920, 1080)
CUT_NOTES = """
[...document.querySelectorAll(".tile .note")]
    .filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)
"""
"""The texts below the numbers of the overview that are cut off."""

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


class Ui(Command):
    """A running scaler_ui."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        super().__init__(command_line("scaler_ui", *arguments), child_environment(**environment))
        try:
            self.url = self.wait_for_output(r"scaler_ui: open (http://\S+)")[1]
        except BaseException:
            self.__exit__()
            raise

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.url).query)["token"][0]

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def get(self, path: str = "/", **headers: str) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers; as a program asks that is not a browser, under any name that it likes. It has the
        token, unless its headers say otherwise."""
        headers = {"Authorization": f"Bearer {self.token}", **headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest("GET", path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            text = "" if answer.status == 101 else answer.read().decode(errors="replace")
            return answer.status, text, dict(answer.getheaders())
        finally:
            connection.close()

    def upgrade(self, **headers: str) -> int:
        """The status with which a websocket is answered; 101 is yes."""
        return self.get("/socket", **UPGRADE, **headers)[0]


MADE_UP = """
import itertools, sys, time, zmq
from scaler_protocol.monitor.feed import encode, kind_of
from tests.support.monitor_stream import synthetic_messages
context = zmq.Context()
publisher = context.socket(zmq.XPUB)
publisher.setsockopt(zmq.SNDHWM, 0)
publisher.setsockopt(zmq.LINGER, 0)
publisher.bind(sys.argv[1])
print("ready", flush=True)
while b"events" not in publisher.recv()[1:]:
    pass
messages = list(synthetic_messages(20.0, 12, 200, start=time.time() - 20))
for number, message in enumerate(itertools.chain(messages, itertools.repeat(messages[-1]))):
    publisher.send_multipart([kind_of(message), encode(message, number)])
    time.sleep(0 if number < len(messages) else 0.1)
"""
TASKS = 20 * 200
"""What the made-up stream has at the end; its counts are checked elsewhere."""


class MadeUpStream:
    """A publisher with 20 seconds of a made-up cluster for the first watcher, which then stands still and lives."""

    def __init__(self, address: str, source: str = MADE_UP) -> None:
        command = [sys.executable, "-c", source, address]
        self._process = subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """A scaler_ui that watches the made-up cluster."""
    address = f"ipc://{tmp_path_factory.mktemp('ui')}/monitor"
    stream = MadeUpStream(address)
    try:
        with Ui(address, "--port", 0) as ui:
            yield ui
    finally:
        stream.stop()


def number_in(watched: Watched, tile: str) -> int:
    """The number on a tile of the overview."""
    script = "name => [...document.querySelectorAll('.tile')].find(t => t.querySelector('.name').textContent === name)"
    text = watched.page.evaluate(f"name => ({script})(name)?.querySelector('.value').textContent ?? ''", tile)
    return int(text.replace(",", "")) if text and text != "–" else -1


def rows(watched: Watched) -> list[list[str]]:
    """What stands in the first table."""
    script = (
        "() => [...document.querySelectorAll('main tbody')][0] ? [...document.querySelectorAll('main tbody')[0].rows]"
    )
    return list(watched.page.evaluate(f"{script}.map(row => [...row.cells].map(cell => cell.innerText.trim())) : []"))


def tallest_row(watched: Watched) -> int:
    script = "Math.max(...[...document.querySelectorAll('tbody tr')].map(row => row.offsetHeight))"
    return int(watched.page.evaluate(script))


def wait_for_rows(watched: Watched) -> None:
    watched.wait_until("() => document.querySelectorAll('main tbody tr').length > 0")


# ---- every view ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [PHONE, LAPTOP, DESKTOP], ids=lambda size: f"{size[0]}")
def test_every_view_opens_fits_and_asks_nobody_else(made_up: Ui, browser: Browser, size: tuple[int, int]) -> None:
    with Watched(browser, made_up.url, *size) as watched:
        for view in VIEWS:
            watched.open(view)
            watched.wait_until("() => document.querySelector('main h1')?.textContent.length > 0")
            watched.wait_until("() => !document.querySelector('main').innerText.includes('undefined')")
            assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            assert watched.page.evaluate(CUT_NOTES) == [], view
        watched.wait_for_text("Live", ".connection")
        hosts = {urlsplit(address).netloc for address in watched.requests}
        assert hosts == {urlsplit(made_up.url).netloc}, "nothing may come from another host"
        assert len(watched.requests) > 10
        assert watched.errors == []


def test_the_overview_and_a_screenshot(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url) as watched:
        watched.wait_until("() => document.querySelectorAll('.chart canvas').length === 4")
        wait_until(lambda: number_in(watched, "Workers") == 12)
        watched.page.evaluate("location.hash = '#/nowhere'")  # the overview again, as a new visit
        wait_until(lambda: number_in(watched, "Workers") == 12)
        assert number_in(watched, "Succeeded") + number_in(watched, "Failed") >= TASKS - 40  # some are cancelled
        watched.wait_for_text("simulate", "main table")
        assert len(watched.page.screenshot()) > 20_000
        assert watched.page.title().startswith("tcp://127.0.0.1:2345")


def test_the_former_address_of_a_view_leads_to_it(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/processors") as watched:
        watched.wait_until("() => document.querySelector('main h1')?.textContent === 'Worker processes'")


def test_the_worst_of_several_states_has_its_colour(made_up: Ui, browser: Browser) -> None:
    texts = ["connected", "connected; paused", "paused; draining", "lost; draining", "cancelled", "stuck? idle", "new"]
    with Watched(browser, made_up.url) as watched:
        script = "async texts => { const { stateOf } = await import('./table.js'); return texts.map(stateOf); }"
        assert watched.page.evaluate(script, texts) == ["good", "warning", "warning", "bad", "", "warning", None]


def test_tables_sort_filter_and_page(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/tasks") as watched:
        wait_for_rows(watched)
        assert len(rows(watched)) == 100
        watched.page.get_by_role("button", name="Last page").click()
        watched.wait_until("() => document.querySelector('.table-tools .count')?.textContent.startsWith('4,0')")
        watched.page.get_by_role("button", name="First page").click()
        watched.page.get_by_role("button", name="ran", exact=True).click()
        watched.wait_until("() => document.querySelector('th[aria-sort]')?.innerText.includes('ran')")
        watched.wait_until("() => document.querySelector('th[aria-sort]')?.ariaSort === 'descending'")
        watched.page.keyboard.press("/")
        watched.page.keyboard.type("numpy")
        watched.wait_until(
            "() => [...document.querySelectorAll('main tbody tr')].every(r => r.innerText.includes('numpy'))"
        )
        watched.page.keyboard.type(" no such thing")
        watched.wait_for_text("Nothing matches")
        watched.page.keyboard.press("Escape")
        wait_for_rows(watched)
        watched.open("workers")
        wait_for_rows(watched)
        assert len(rows(watched)) == 12
        watched.open("tasks")
        watched.wait_until("() => document.querySelector('th[aria-sort]')?.innerText.includes('ran')")


def test_every_row_and_mention_leads_to_a_page(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/workers") as watched:
        wait_for_rows(watched)
        watched.page.get_by_role("row", name="node-0-3").click()
        watched.wait_until("() => location.hash === '#/worker/node-0/node-0-3'")
        watched.wait_for_text("Newest executions")
        watched.page.locator(".facts a", has_text="node-0").first.click()
        watched.wait_until("() => location.hash === '#/host/node-0'")
        watched.wait_for_text("memory of the host")
        watched.page.locator("td[data-key=function] a").first.click()
        watched.wait_until("() => location.hash.startsWith('#/function/')")
        watched.wait_for_text("Slowest executions")
        watched.page.locator("td[data-key=task] a").last.click()
        watched.wait_until("() => location.hash.startsWith('#/task/')")
        watched.page.get_by_role("link", name="In the task stream").click()
        watched.wait_until("() => location.hash.startsWith('#/stream?span=')")
        watched.page.evaluate("location.hash = '#/task/abababab/999999999'")
        watched.wait_for_text("Not known")
        assert watched.errors == []


def test_a_failed_task_has_its_traceback_on_its_page(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/failures") as watched:
        wait_for_rows(watched)
        watched.wait_for_text("task ", ".details pre")
        text = watched.page.locator(".details pre").inner_text()
        task, client = next(line for line in text.splitlines() if line.startswith("task ")).split(",")[0].split(" of ")
        watched.page.evaluate("path => { location.hash = path }", f"#/task/{client}/{task.removeprefix('task ')}")
        watched.wait_for_text("Known failures")
        watched.wait_for_text("attempt 1", ".details pre")


def test_what_is_shown_is_in_the_address_and_survives_a_reload(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/tasks") as watched:
        wait_for_rows(watched)
        watched.page.get_by_role("button", name="ran", exact=True).click()
        watched.page.keyboard.press("/")
        watched.page.keyboard.type("numpy")
        watched.wait_until("() => location.hash === '#/tasks?sort=duration&order=down&filter=numpy'")
        watched.page.reload()
        watched.wait_until("() => document.querySelector('input.filter')?.value === 'numpy'")
        watched.wait_until("() => document.querySelector('th[aria-sort]')?.innerText.includes('ran')")
        watched.open("stream")
        watched.wait_until(COLOURED)
        watched.page.locator(".stream canvas").focus()
        watched.page.keyboard.press("ArrowLeft")
        watched.page.keyboard.press("+")
        watched.wait_until("() => /span=21/.test(location.hash) && /end=/.test(location.hash)")
        shown = watched.page.evaluate("location.hash")
        watched.page.reload()
        watched.wait_until("() => document.querySelector('#follow')?.ariaPressed === 'false'")
        assert watched.page.evaluate("location.hash") == shown
        watched.open("failures")
        watched.page.get_by_role("row", name="processor died").click()
        watched.wait_until("() => location.hash.startsWith('#/failures?group=')")
        watched.page.reload()
        watched.wait_for_text("double free or corruption", ".details")


def test_a_graph_is_drawn_and_a_call_leads_to_its_task(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/graphs") as watched:
        watched.page.get_by_role("link", name="Graph 60").click()
        watched.wait_for_text("30 done", ".graph-legend")
        drawing = "window.scaler.view.drawing"
        watched.wait_until(f"() => {drawing}.shape?.tasks.length === 60")
        edges_point_right = (
            f"() => {drawing}.shape.sources.every((source, at) => {drawing}.shape.x[source] < "
            f"{drawing}.shape.x[{drawing}.shape.targets[at]])"
        )
        assert watched.page.evaluate(edges_point_right)
        place = watched.page.evaluate(f"() => {drawing}.pixels({drawing}.shape.x[7] + 1, {drawing}.shape.y[7])")
        watched.page.locator(".drawing canvas").click(position={"x": place[0], "y": place[1]})
        watched.wait_until("() => location.hash === '#/task/abababab/8'")
        watched.wait_for_text("needed by")
        assert watched.errors == []


def test_the_layout_of_a_large_graph_takes_a_moment(made_up: Ui, browser: Browser) -> None:
    script = """async () => {
        const { layered, spread } = await import('./layout.js');
        const [sources, targets] = [[], []];
        for (let node = 100; node < 10000; node++) for (let edge = 0; edge < 3; edge++) {
            sources.push(node - 1 - (node * 7 + edge * 31) % 100); targets.push(node);
        }
        const began = performance.now();
        const { x, y } = layered(10000, sources, targets);
        const places = spread([0, 0, 0, 5]);
        return [performance.now() - began, sources.every((source, at) => x[source] < x[targets[at]]), new Set(y).size > 1, places];
    }"""  # noqa: E501
    with Watched(browser, made_up.url) as watched:
        _, points_right, is_spread, places = watched.page.evaluate(script)
        assert points_right and is_spread
        assert places == [-1, 0, 1, 5]


def test_tables_fit_the_window_and_show_the_other_columns_on_request(made_up: Ui, browser: Browser) -> None:
    shown = "() => [...document.querySelectorAll('main th')].filter(each => !each.hidden).map(each => each.dataset.key)"
    fits = "() => [...document.querySelectorAll('main .scroller')].every(each => each.scrollWidth <= each.clientWidth)"
    with Watched(browser, made_up.url + "#/overview", 1280, 720) as watched:
        for view in ("overview", "workers", "running", "functions", "tasks", "progress", "failures", "clients"):
            watched.open(view)
            wait_for_rows(watched)
            watched.wait_until(fits)
        watched.open("functions")
        wait_for_rows(watched)
        watched.wait_until(fits)
        few = watched.page.evaluate(shown)
        assert {"name", "mean", "total", "parts"} <= set(few) and "digest" not in few
        watched.page.get_by_role("button", name="more columns").click()
        assert "digest" in watched.page.evaluate(shown)
        watched.page.get_by_role("button", name="Fewer columns").click()
        assert watched.page.evaluate(shown) == few


def test_tables_fit_a_telephone_with_all_their_values(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/clients", *PHONE) as watched:
        wait_for_rows(watched)
        hidden = """() => [...document.querySelectorAll('main tbody td')].filter(cell => cell.innerText.trim())
            .filter(cell => { const box = cell.getBoundingClientRect(); return box.left < 0 || box.right > innerWidth; }).length"""  # noqa: E501
        for view in ("clients", "workers", "running", "functions", "tasks", "progress"):
            watched.open(view)
            wait_for_rows(watched)
            assert watched.page.evaluate(hidden) == 0, view
        watched.page.select_option("select.order", "unfinished")


def test_the_menu_of_a_graph_is_in_the_corner_of_its_card_on_a_telephone(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/graphs", *PHONE) as watched:
        watched.page.wait_for_selector(".card.graph .more")
        script = """() => [...document.querySelectorAll('.card.graph')].map(card => {
            const outer = card.getBoundingClientRect(), inner = card.querySelector('.more').getBoundingClientRect();
            return [outer.right - inner.right, inner.top - outer.top];
        })"""
        corners = watched.page.evaluate(script)
        assert corners and all(0 <= gap < 20 for corner in corners for gap in corner), corners


def test_keys_reach_everything(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url) as watched:
        watched.wait_for_text("Live", ".connection")
        watched.page.keyboard.press("3")
        watched.wait_until("() => location.hash === '#/workers'")
        for view in VIEWS:
            key = watched.page.evaluate(
                "view => document.querySelector(`nav a[href='#/${view}']`).ariaKeyShortcuts", view
            )
            watched.page.keyboard.press(key)
            watched.wait_until("view => location.hash.split('?')[0] === `#/${view}`", view)
        watched.page.keyboard.press("r")
        watched.wait_until("() => location.hash === '#/running'")
        watched.wait_for_text("stuck? 120x usual, no CPU 60 s")
        theme = watched.page.evaluate("document.documentElement.dataset.theme")
        watched.page.keyboard.press("t")
        watched.wait_until("theme => document.documentElement.dataset.theme !== theme", theme)
        watched.page.keyboard.press("?")
        watched.wait_for_text("filter the table", "dialog")
        watched.page.keyboard.press("Escape")
        watched.wait_until("() => !document.querySelector('dialog').open")
        watched.page.keyboard.press("Tab")
        assert watched.page.evaluate("document.activeElement !== document.body")
        watched.page.reload()
        watched.wait_until("theme => document.documentElement.dataset.theme !== theme", theme)


def test_failures_are_grouped_with_their_details(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/failures") as watched:
        wait_for_rows(watched)
        watched.page.get_by_role("row", name="processor died").click()
        watched.wait_for_text("double free or corruption", ".details")
        watched.page.get_by_role("row", name="ValueError").focus()
        watched.page.keyboard.press("Enter")
        watched.wait_for_text("negative price", ".details")


def test_waiting_tasks_have_a_reason_and_graphs_a_bar(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/waiting") as watched:
        watched.wait_for_text("no worker has the capability gpu")
        watched.open("graphs")
        watched.wait_until("() => document.querySelector('[role=progressbar]')?.ariaValueNow !== undefined")
        watched.open("objects")
        wait_for_rows(watched)
        watched.open("settings")
        watched.wait_for_text("per-worker-queue-size")


def test_an_object_has_a_page_that_survives_a_reload(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/objects") as watched:
        watched.page.get_by_role("row", name="sent-1").click()
        watched.wait_until("() => location.hash === '#/object/abababab/sent-1'")
        for _ in range(2):
            watched.wait_for_text("30.0 MiB", ".entity-page")
            watched.page.reload()
        watched.page.locator(".entity-page").get_by_role("link", name="task 30").click()
        watched.wait_until("() => location.hash === '#/task/abababab/30'")
        watched.page.locator(".entity-page").get_by_role("link", name="result-30").click()
        watched.wait_until("() => location.hash === '#/object/abababab/result-30'")
        watched.page.evaluate("location.hash = '#/object/abababab/result-999'")
        watched.wait_for_text("not among the largest objects")
        assert not watched.errors


# ---- the task stream -----------------------------------------------------------------------------------------------

COLOURED = """() => {
    const canvas = document.querySelector('.stream canvas');
    if (!canvas || !canvas.width) return false;
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] > 250) colours.add(`${pixels[at]},${pixels[at + 1]},${pixels[at + 2]}`);
    return ['0,114,178', '230,159,0', '0,158,115'].every(colour => colours.has(colour));
}"""  # noqa: E501


def test_the_task_stream_shows_bars_zooms_and_follows(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/stream") as watched:
        watched.wait_until(COLOURED)
        follow, about = watched.page.locator("#follow"), watched.page.locator(".about")
        assert follow.get_attribute("aria-pressed") == "true"
        watched.wait_until("() => document.querySelector('.about')?.textContent.includes('in 30 s')")
        box = watched.page.locator(".stream canvas").bounding_box()
        assert box is not None
        watched.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
        for _ in range(4):
            watched.page.mouse.wheel(0, -500)
        watched.wait_until("() => !document.querySelector('.about').textContent.includes('in 30 s')")
        assert follow.get_attribute("aria-pressed") == "false"
        watched.page.locator(".stream canvas").focus()
        watched.page.keyboard.press("ArrowLeft")
        zoomed = about.text_content()
        watched.page.keyboard.press("-")
        watched.wait_until("text => document.querySelector('.about').textContent !== text", zoomed)
        watched.page.keyboard.press("Space")
        watched.wait_until("() => document.querySelector('#follow')?.ariaPressed === 'true'")
        watched.page.keyboard.press("Home")
        watched.wait_until("() => document.querySelector('.about')?.textContent.startsWith('4,0')")
        assert watched.errors == []


def test_a_typed_time_shows_what_happened_then(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url) as watched:
        wait_until(lambda: number_in(watched, "Workers") > 0)
        watched.page.keyboard.press("g")
        watched.wait_until("() => scaler.view?.stream?.latest > 0")
        latest = watched.page.evaluate("scaler.view.stream.latest")
        field = watched.page.get_by_role("textbox", name="Go to a time")
        field.fill(datetime.datetime.fromtimestamp(latest - 15).isoformat())
        field.press("Enter")
        watched.wait_until("() => document.querySelector('#follow')?.ariaPressed === 'false'")
        assert field.input_value() == ""
        assert abs(watched.page.evaluate("scaler.view.stream.end") - latest) < 0.01
        watched.page.keyboard.press("Space")
        watched.wait_until("() => document.querySelector('#follow')?.ariaPressed === 'true'")
        field.fill("1999-01-01T00:00")
        field.press("Enter")
        watched.wait_for_text("Cannot go to 1999-01-01T00:00", "main")
        assert watched.errors == []


def test_a_bar_says_what_it_is(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url + "#/stream") as watched:
        watched.wait_until(COLOURED)
        watched.page.select_option("select[aria-label='Time shown']", "1")
        watched.wait_until("() => document.querySelector('.about')?.textContent.includes('in 1 s')")
        box = watched.page.locator(".stream canvas").bounding_box()
        assert box is not None

        def found() -> bool:
            for step in range(40):
                x = box["x"] + 160 + step * 23
                watched.page.mouse.move(x, box["y"] + 26 + 45 + step % 6)
                if watched.page.locator(".tooltip").is_visible():
                    return True
            return False

        wait_until(found)
        watched.wait_for_text("attempt", ".tooltip")
        watched.page.mouse.down()
        watched.page.mouse.up()
        watched.wait_until("() => location.hash.startsWith('#/task/')")
        watched.page.go_back()
        watched.wait_until(COLOURED)
        watched.page.locator(".key button").first.click()
        assert watched.page.locator(".key button").first.get_attribute("aria-pressed") == "true"


# ---- who may look --------------------------------------------------------------------------------------------------


EVERYTHING = (
    "/",
    "/app.js",
    "/style.css",
    "/vendor/uPlot.js",
    "/nothing",
    "/?token=",
    "/?token=wrong",
    "/socket",
    "/trace?start=0&stop=1",
)


def test_a_window_of_the_stream_is_a_trace(made_up: Ui) -> None:
    wait_until(lambda: len(made_up.get("/trace?start=0&stop=1e11")[1]) > 100_000)
    status, text, headers = made_up.get("/trace?start=0&stop=1e11")
    assert status == 200 and "attachment" in headers["Content-Disposition"]
    slices = [event for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]
    assert len(slices) > 100 and all(event["name"] for event in slices)
    last = max(event["ts"] for event in slices) / 1e6
    status, text, _ = made_up.get(f"/trace?start={last - 1}&stop={last}")
    assert status == 200 and 0 < len(json.loads(text)["traceEvents"]) < len(slices)
    for wrong in ("", "?start=0", "?start=nan&stop=1", "?start=0&stop=inf", "?start=x&stop=1"):
        status, text, _ = made_up.get(f"/trace{wrong}")
        assert (status, text.count("\n")) == (400, 1) and text.startswith("Cannot make a trace"), wrong


def test_nothing_is_shown_without_the_token(made_up: Ui) -> None:
    for path in EVERYTHING:
        for shown in (
            "",
            "Bearer ",
            "Bearer wrong",
            f"Bearer {made_up.token}x",
            f"Bearer {made_up.token[:-1]}",
            "\xff",
        ):
            status, text, headers = made_up.get(path, Authorization=shown)
            assert status == 403 and "Open the address that scaler_ui printed" in text, (path, shown)
            assert "Set-Cookie" not in headers and headers["Connection"] == "close"
            assert "default-src 'none'" in headers["Content-Security-Policy"]
    host = f"127.0.0.1:{made_up.port}"
    assert made_up.upgrade(Host=host, Origin=f"http://{host}", Authorization="") == 403
    assert made_up.get(Host="evil.example", Authorization="")[0] == 421


def test_the_address_gives_a_cookie_and_the_cookie_everything(made_up: Ui) -> None:
    status, _, headers = made_up.get(f"/?token={made_up.token}", Authorization="")
    cookie, *attributes = (part.strip() for part in headers["Set-Cookie"].split(";"))
    assert status == 200 and {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert made_up.token not in cookie
    for path in ("/", "/app.js", "/icon.svg"):
        assert made_up.get(path, Authorization="", Cookie=f"other=1; {cookie}; more=2")[0] == 200
        assert made_up.get(path, Authorization="", Cookie=cookie[:-1])[0] == 403
    host = f"127.0.0.1:{made_up.port}"
    assert made_up.upgrade(Host=host, Origin=f"http://{host}", Authorization="", Cookie=cookie) == 101
    assert made_up.upgrade(Host=host, Origin="http://evil.example", Authorization="", Cookie=cookie) == 403


def test_a_browser_needs_the_token_once(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, made_up.url) as watched:
        watched.wait_until("() => location.search === ''")  # nothing of it stays in the address
        watched.page.reload()
        watched.wait_for_text("Live", "#connection")
        assert watched.page.evaluate("() => document.cookie") == ""
        assert watched.errors == []
    with Watched(browser, f"http://127.0.0.1:{made_up.port}/") as watched:
        watched.wait_for_text("Open the address that scaler_ui printed")
        watched.errors.clear()


def test_a_page_goes_on_with_the_same_token_and_says_when_there_is_another(tmp_path: Path, browser: Browser) -> None:
    address, port = f"ipc://{tmp_path}/monitor", free_port()
    with Ui(address, "--port", port, SCALER_UI_TOKEN="open&sesame#1") as ui:
        watched = Watched(browser, ui.url)
        watched.wait_for_text("Nothing has been heard from")
    with watched:
        watched.wait_for_text("This page has lost its connection to scaler_ui")
        with Ui(address, "--port", port, "--token", "open&sesame#1"):
            watched.wait_for_text("Nothing has been heard from")
        watched.wait_for_text("This page has lost its connection to scaler_ui")
        with Ui(address, "--port", port):
            watched.wait_for_text("scaler_ui asks for another token: open the address")


@pytest.mark.parametrize("token", ["", "short", "with a space in it", "control\x07character"])
def test_a_token_that_cannot_serve_is_one_sentence(tmp_path: Path, token: str) -> None:
    done = run_command("scaler_ui", f"ipc://{tmp_path}/monitor", "--port", 0, "--token", token)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "Cannot use this token: it needs at least 8 printable characters and no space" in done.stderr


def test_the_token_can_be_switched_off(tmp_path: Path) -> None:
    with Ui(f"ipc://{tmp_path}/monitor", "--port", 0, "--no-require-token") as ui:
        ui.wait_for_output("anyone who can reach port .* can watch: no token is required")
        assert "token=" not in ui.url
        with closing(http.client.HTTPConnection("127.0.0.1", ui.port, timeout=60)) as connection:
            connection.request("GET", "/")
            assert connection.getresponse().status == 200


# ---- connections ---------------------------------------------------------------------------------------------------


def test_connections_that_say_nothing_shut_nobody_out(made_up: Ui) -> None:
    process = psutil.Process(made_up.pid)
    with ExitStack() as stack:
        for _ in range(3 * CONNECTIONS_LIMIT):
            stack.enter_context(socket.create_connection(("127.0.0.1", made_up.port)))
        wait_until(lambda: process.num_fds() < CONNECTIONS_LIMIT + 40)
        assert made_up.get()[0] == 200


ENDLESS = [b"GET / HTTP/1.1\r\nX: y", b"GET /" + b"a" * 100, b"POST / HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n"]


def test_requests_without_end_are_cut_off(made_up: Ui) -> None:
    """By their size or by the time they take: nothing of them is kept. All of them wait at the same time."""
    with ExitStack() as stack:
        address = ("127.0.0.1", made_up.port)
        connections = [
            stack.enter_context(socket.create_connection(address, timeout=ADMIT_SECONDS + 20)) for _ in ENDLESS
        ]
        for connection, endless in zip(connections, ENDLESS, strict=True):
            connection.sendall(endless)
        for connection in connections:
            answered = b"x"
            with contextlib.suppress(ConnectionError):
                while answered:
                    answered = connection.recv(65536)


def test_much_from_a_stranger_is_not_taken_in(made_up: Ui) -> None:
    with socket.create_connection(("127.0.0.1", made_up.port), timeout=30) as connection:
        sent = 0
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\n")
            while sent < 50 * ADMIT_BYTES:
                connection.sendall(b"A-Header: " + b"x" * 1000 + b"\r\n")
                sent += 1000
        assert sent < 50 * ADMIT_BYTES


def test_other_names_and_other_pages_are_refused(made_up: Ui) -> None:
    host = f"127.0.0.1:{made_up.port}"
    assert made_up.get()[0] == 200
    assert made_up.get(Host=f"localhost:{made_up.port}")[0] == 200
    assert made_up.get(Host="evil.example")[0] == 421
    assert made_up.get("/socket", Host="evil.example")[0] == 421
    assert made_up.upgrade(Host=host, Origin=f"http://{host}") == 101
    assert made_up.upgrade(Host=host, Origin="http://evil.example") == 403
    assert made_up.upgrade(Host=host, Origin="null") == 403
    assert made_up.upgrade(Host=host) == 403


def test_a_page_from_elsewhere_cannot_connect(made_up: Ui, browser: Browser) -> None:
    with Watched(browser, "data:text/html,<p>elsewhere</p>") as watched:
        script = """url => new Promise(resolve => {
            const socket = new WebSocket(url);
            socket.onopen = () => resolve('open');
            socket.onerror = () => resolve('refused');
        })"""
        assert watched.page.evaluate(script, f"ws://127.0.0.1:{made_up.port}/socket") == "refused"


def test_names_may_be_allowed_and_nothing_else_is_served(made_up: Ui, tmp_path: Path) -> None:
    with Ui(f"ipc://{tmp_path}/monitor", "--port", 0, "--allowed-hosts", "monitor.example") as ui:
        assert ui.get(Host="monitor.example")[0] == 200
        assert ui.get(Host="other.example")[0] == 421
        assert ui.get("/../server.py")[0] in (403, 404)
        assert ui.get("/%2e%2e/server.py")[0] in (403, 404)
        _, _, headers = ui.get()
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_it_listens_on_this_machine_only_unless_told(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/monitor"
    with Ui(address, "--port", 0) as ui:
        assert listening(ui) == {"127.0.0.1"}
        assert ui.output.count("\n") == 1
    port = free_port()
    with Ui(address, "--host", "0.0.0.0", "--port", port) as ui:
        assert (listening(ui), ui.port) == ({"0.0.0.0"}, port)
        ui.wait_for_output("port .* carries everything unencrypted, the token included")


def listening(ui: Ui) -> set[str]:
    connections = psutil.Process(ui.pid).net_connections("tcp")
    return {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}


def test_a_page_that_says_nonsense_is_closed_and_the_others_go_on(made_up: Ui, browser: Browser) -> None:
    script = """message => new Promise(resolve => {
        const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket');
        socket.onopen = () => socket.send(message);
        socket.onclose = event => resolve(event.code);
    })"""
    with Watched(browser, made_up.url) as watched:
        operate = ('{"operate": 1}', '{"operate": {"action": 99, "target": "vm"}}', '{"operate": {"action": 0}}')
        for said in (
            *operate,
            "nonsense",
            "[1]",
            '{"watch": 5}',
            '{"watch": {"a": {"what": "nothing"}}}',
            '{"seen": "x"}',
        ):
            assert watched.page.evaluate(script, said) == 1008, said
        watched.wait_for_text("Live", ".connection")


# ---- the command ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_in_good_order_with_an_open_page(
    tmp_path: Path, browser: Browser, number: signal.Signals
) -> None:
    with Ui(f"ipc://{tmp_path}/monitor", "--port", 0) as ui, Watched(browser, ui.url) as watched:
        watched.wait_for_text("Nothing has been heard from")
        ui.signal(number)
        assert ui.wait(60) == 0
        watched.wait_for_text("This page has lost its connection to scaler_ui")
        assert ui.output.count("\n") == 1


def test_pages_that_hang_do_not_keep_it(tmp_path: Path) -> None:
    with ExitStack() as stack, Ui(f"ipc://{tmp_path}/monitor", "--port", 0) as ui:
        for _ in range(5):
            connection = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", ui.port, timeout=60)))
            shown = {"Origin": f"http://127.0.0.1:{ui.port}", "Authorization": f"Bearer {ui.token}"}
            connection.request("GET", "/socket", headers={**UPGRADE, **shown})
            assert connection.getresponse().status == 101
        ui.signal(signal.SIGTERM)
        assert ui.wait(60) == 0


HOSTILE = """
import pickle, sys, time, zmq
from dataclasses import replace
from scaler_protocol.monitor import records
from scaler_protocol.monitor.feed import encode, kind_of
from scaler_protocol.monitor.messages import Events, FunctionStatus
from scaler_protocol.monitor.records import Naming
from tests.support.monitoring import agent_status, snapshot
names = ["<img src=x onerror=alert(1)>", "x" * 10_000, "e\u0301" * 5_000]
names += [chr(0x202E) + "backwards", chr(27) + "[31m" + chr(7), "javascript:window.hit=1"]
names += ['"><img src=x onerror="window.hit=1">', "</script><script>window.hit=1</script>", "`${window.hit=1}`"]
agents = tuple(replace(agent_status(number, 2), host=name, name=name) for number, name in enumerate(names))
functions = tuple(FunctionStatus(bytes([number]) * 16, name, 1, 2) for number, name in enumerate(names))
us = int(time.time() * 1e6)
rows = []
for number, name in enumerate(names):
    digest = (bytes([number]) * 16).hex()
    rows.append(records.name_record(Naming.FUNCTION, number, {"digest": digest, "name": name}, time=us))
    agent = {"session": digest, "host": name, "name": name, "pid": 3, "workers": [name + "-0"]}
    rows.append(records.name_record(Naming.AGENT, number, agent, time=us))
    place = {"session": 0, "agent": number, "workers": [0]}
    rows.append(records.ended_record([number], [10**6], [1], [0], functions=[number], time=us, **place))
    payload = pickle.dumps((b"", name[:500], name, name))
    rows.append(records.failed_record(2, payload, task=99, function=number, attempt=1, worker=0, time=us,
                                      session=0, agent=number))
publisher = zmq.Context().socket(zmq.XPUB)
publisher.bind(sys.argv[1])
print("ready", flush=True)
while b"events" not in publisher.recv()[1:]:
    pass
shown = replace(snapshot(agents), functions=functions, time=us / 1e6)
for number in range(10**9):
    publisher.send_multipart([b"snapshot", encode(shown, number)])
    if number == 0:
        publisher.send_multipart([b"events", encode(Events(us / 1e6, 0, b"".join(rows), 0, len(rows), 7), 1)])
    time.sleep(0.1)
"""


def test_what_is_no_request_is_refused_without_a_word_to_its_user(tmp_path: Path) -> None:
    garbage = (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),  # somebody tries TLS
        b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\r\n\r\n",  # or ZeroMQ
        b"GET / HTTP/1.1\r\nHost: " + b"a" * 10_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \x01\r\n\r\n",
        b"\r\n" * 100_000,
    )
    with Ui(f"ipc://{tmp_path}/monitor", "--port", 0) as ui:
        for sent in garbage:
            with socket.create_connection(("127.0.0.1", ui.port), timeout=60) as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(sent)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
        assert ui.get()[0] == 200
        ui.process.terminate()
        assert ui.process.wait() == 0
        assert "Traceback" not in ui.output and "Error" not in ui.output


def test_names_of_any_kind_are_text_and_stop_no_page(tmp_path: Path, browser: Browser) -> None:
    address = f"ipc://{tmp_path}/monitor"
    stream = MadeUpStream(address, HOSTILE)
    try:
        with Ui(address, "--port", 0) as ui, Watched(browser, ui.url) as watched:
            watched.page.on("dialog", lambda dialog: watched.errors.append(dialog.message))
            for view in VIEWS:
                watched.open(view)
                watched.page.wait_for_selector("main h1")
            watched.open("functions")
            watched.wait_for_text("<img src=x onerror=alert(1)>", "main")
            watched.open("stream")
            watched.wait_for_text("9 tasks in", "main")
            watched.wait_until("() => document.documentElement.scrollWidth <= innerWidth")
            watched.open("failures")
            watched.wait_for_text("javascript:window.hit=1", "main")
            assert tallest_row(watched) < 220
            assert watched.page.locator("a:not([href^='#'])").count() == 0
            watched.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
            watched.open("functions")
            wait_for_rows(watched)
            assert tallest_row(watched) < 800
            assert watched.page.evaluate("window.hit") is None
            assert {urlsplit(each).netloc for each in watched.requests} == {urlsplit(ui.url).netloc}
            assert watched.errors == []
    finally:
        stream.stop()


def test_a_report_runs_nothing_asks_nobody_and_fits(tmp_path: Path, browser: Browser) -> None:
    model = Model(0.0)
    for message in synthetic_messages(2.0, 4, 50, start=1e9):
        model.apply(message, 0.0)
    names = ["x" * 10_000, '"><img src=x onerror="window.hit=1">', "</script><script>window.hit=1</script>"]
    for number, name in enumerate(names):
        model.activity.functions[number] = model.activity.functions[number]._replace(name=name)
        failed = Failure(1e9 + 1, number, b"1" * 16, name, name, name, 1, Status.EXCEPTION, name, name, name)
        model.activity.failures.add(failed)
    path = tmp_path / "report.html"
    path.write_text("".join(report_of(model, 1e9, 1e9 + 2)))
    with Watched(browser, path.as_uri(), *PHONE) as watched:
        watched.wait_for_text("</script><script>window.hit=1</script>")
        assert watched.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert watched.page.evaluate("window.hit") is None
        assert (watched.requests, watched.errors) == ([path.as_uri()], [])


def test_a_page_says_when_its_scaler_ui_stands_still_and_goes_on_with_it(tmp_path: Path, browser: Browser) -> None:
    stream = MadeUpStream(f"ipc://{tmp_path}/monitor")
    try:
        with Ui(f"ipc://{tmp_path}/monitor", "--port", 0) as ui, Watched(browser, ui.url) as watched:
            watched.wait_for_text("Live", "header")
            for gives_up in (False, True):
                ui.process.send_signal(signal.SIGSTOP)
                watched.wait_for_text(
                    "This page has lost its connection to scaler_ui. It reconnects when scaler_ui is back."
                )
                if gives_up:
                    watched.page.wait_for_event("websocket", timeout=30_000)
                ui.process.send_signal(signal.SIGCONT)
                watched.page.wait_for_selector("#main:not(.stale)")
                watched.wait_for_text("Live", "header")
    finally:
        stream.stop()


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1", "udp://127.0.0.1:5", "inproc://here", "ipc://"])
def test_a_wrong_address_is_one_line_and_exit_code_2(address: str) -> None:
    one_line(address)


def test_a_missing_address_and_a_used_port_are_one_line(tmp_path: Path) -> None:
    assert "--replay" in one_line()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        complaint = one_line(f"ipc://{tmp_path}/monitor", "--port", taken.getsockname()[1])
        assert "Choose another --port" in complaint
    assert "no-such-host" in one_line(f"ipc://{tmp_path}/monitor", "--host", "no-such-host.invalid")


def one_line(*arguments: object) -> str:
    result = run_command("scaler_ui", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("scaler_ui: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_it_uses_nothing_else_of_the_scheduler() -> None:
    source = (
        "import sys, scaler_scheduler.web.cli, scaler_scheduler.web.server\n"
        "print([name for name in sys.modules if name.startswith('scaler_scheduler')"
        " and not name.startswith('scaler_scheduler.web')])"
    )
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30)
    assert result.stdout.strip() == "['scaler_scheduler']", result.stderr


# ---- what may go wrong ---------------------------------------------------------------------------------------------


def test_a_foreign_stream_is_one_sentence_and_the_page_goes_on(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"ipc://{tmp_path}/monitor"
    with zmq.Context() as context, Ui(address, "--port", 0) as ui, Watched(browser, ui.url) as watched:
        with context.socket(zmq.XPUB) as stranger:
            stranger.setsockopt(zmq.LINGER, 0)
            stranger.bind(address)
            assert stranger.poll(10_000)
            stranger.send_multipart([SNAPSHOT_KIND, b"hello"])
            watched.wait_for_text("is not a Scaler monitor stream")
            with monkeypatch.context() as patch:
                patch.setattr(feed, "MONITOR_MAJOR", 9)
                stranger.send_multipart([SNAPSHOT_KIND, feed.encode(snapshot())])
            watched.wait_for_text("the scheduler uses monitor protocol 9")
            stranger.unbind(address)
        stream = MadeUpStream(address)
        try:
            wait_until(lambda: number_in(watched, "Workers") == 12)
            watched.wait_until("() => document.querySelectorAll('.notice').length === 0")
        finally:
            stream.stop()
        watched.wait_for_text("The scheduler is silent")
        assert watched.errors == []


def test_a_scheduler_with_keys_is_said(browser: Browser) -> None:
    with monitor_address_with_keys() as address, Ui(address, "--port", 0) as ui, Watched(browser, ui.url) as watched:
        watched.wait_for_text("set SCALER_KEYS")


def test_a_restarted_scheduler_is_said_and_counts_anew(browser: Browser) -> None:
    address = free_address()
    with ExitStack() as stack:
        scheduler = start_scheduler(address)
        stack.callback(lambda: scheduler.__exit__())
        ui = stack.enter_context(Ui(default_monitor_address(address), "--port", 0))
        watched = stack.enter_context(Watched(browser, ui.url))
        watched.wait_for_text("There are no workers")
        scheduler.kill()
        watched.wait_for_text("The scheduler is silent")
        scheduler.__exit__()
        scheduler = start_scheduler(address)
        watched.wait_for_text("The scheduler has restarted")
        watched.wait_for_text("Live", ".connection")


# ---- a real cluster ------------------------------------------------------------------------------------------------


def fail_with_markup() -> None:
    raise ValueError("<img src=x onerror='document.title=\"broken\"'>")


def test_a_real_cluster_and_exact_counts(browser: Browser) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2) as cluster:
        cluster.remember_family()
        with Ui(default_monitor_address(address), "--port", 0) as ui, Watched(browser, ui.url) as watched:
            wait_until(lambda: number_in(watched, "Workers") == 2)
            with Client(address) as client:
                assert client.map(functions.square, range(3000)) == [number**2 for number in range(3000)]
                with pytest.raises(ValueError):
                    client.submit(fail_with_markup).result()
                wait_until(lambda: (number_in(watched, "Succeeded"), number_in(watched, "Failed")) == (3000, 1))
                watched.open("tasks")
                watched.wait_until("() => document.querySelector('.count')?.textContent.includes('3,001')")
                watched.open("failures")
                watched.wait_for_text("<img src=x onerror=", ".details")
                watched.wait_for_text("fail_with_markup", ".details")
                watched.open("stream")
                watched.wait_until("() => document.querySelector('.about')?.textContent.startsWith('3,001 tasks')")
                watched.open("clients")
                wait_for_rows(watched)
                assert len(rows(watched)) == 1
            assert "broken" not in watched.page.title()
            assert watched.errors == []


def submits_two(number: int) -> int:
    with Client() as inner:
        futures = [inner.submit(functions.square, number + each) for each in range(2)]
        return sum(future.result() for future in futures)


def test_the_pages_of_nested_tasks_lead_to_one_another(browser: Browser) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        client.submit(functions.square, 1).result(60)
        with Ui(default_monitor_address(address), "--port", 0) as ui, Watched(browser, ui.url) as watched:
            wait_until(lambda: number_in(watched, "Workers") == 1)
            futures = [client.submit(submits_two, number) for number in range(3)]
            assert [future.result(60) for future in futures] == [1, 5, 13]
            path = f"#/task/{client.identity.hex()[:8]}/{futures[1].task_id}"
            watched.page.evaluate("path => { location.hash = path }", path)
            watched.wait_for_text("submits_two", ".entity-page")
            children = watched.page.locator(".facts a").get_by_text("square")
            children.nth(1).wait_for()
            assert children.count() == 2
            children.nth(1).click()
            watched.page.locator(".facts a").get_by_text(f"task {futures[1].task_id} submits_two").click()
            watched.wait_until("path => location.hash === path", path)
            assert watched.errors == []


def test_actions_on_a_real_cluster(browser: Browser) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1) as cluster, Client(address) as client:
        cluster.remember_family()
        with Ui(default_monitor_address(address), "--port", 0) as ui, Watched(browser, ui.url) as watched:
            (agent,) = client.cluster_info().agents
            watched.open("workers")
            change_ones_mind(watched, f"{agent.name}-0", "Pause", "Drain")
            act(watched, f"{agent.name}-0", "Pause", f"Paused {agent.name}.")
            waiting = [client.submit(functions.sleep_and_return, 1000) for _ in range(3)]
            watched.open("functions")
            act(watched, "sleep_and_return", "Cancel", "Cancelled 3 tasks of function sleep_and_return.")
            wait_until(lambda: all(future.cancelled() for future in waiting))
            watched.open("workers")
            act(watched, f"{agent.name}-0", "Resume", f"Resumed {agent.name}.")
            assert client.submit(abs, -1).result() == 1
            watched.open("clients")
            row = str(client.cluster_info().clients[0].session.hex()[:8])
            act(watched, row, "Set weight of group", "Gave group default the weight 2.", value="2")
            running = client.submit(functions.sleep_and_return, 1000)
            watched.open("running")
            look(watched, "sleep_and_return", "Show stack", "pre.report:has-text('in sleep_and_return')")
            look(watched, "sleep_and_return", "Profile", ".flame div:has-text('sleep_and_return')")
            running.cancel()
            assert watched.errors == []


def test_actors_of_a_real_cluster(browser: Browser) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-wn", "home") as cluster, Client(address) as client:
        cluster.remember_family()
        with Ui(default_monitor_address(address), "--port", 0) as ui, Watched(browser, ui.url) as watched:
            actor = client.actor(functions.Sleeper)
            call = actor.sleep(1000)
            watched.open("actors")
            for text in ("Sleeper", "busy", "home", "0 of 0"):
                watched.wait_for_text(text, "tbody")
            [shown] = client.cluster_info().actors
            name = f"{client.identity.hex()[:8]}/{shown.task}"
            act(watched, "Sleeper", "Cancel task", f"Cancelled task {name}.")
            assert isinstance(call.exception(60), ActorDiedError)
            watched.page.locator("tbody").get_by_text("Sleeper").first.wait_for(state="detached")
            assert watched.errors == []


def test_a_graph_is_cancelled_with_the_menu_of_its_card(browser: Browser, gate: Gate) -> None:
    """The menu keeps the focus while the numbers on the card change."""
    started, path = gate.paths
    graph = {
        "started": started, "path": path, "gate": (functions.wait_at_gate, "started", "path"),
        "seconds": 1000, "slow": (functions.sleep_and_return, "seconds"),
    }  # fmt: skip
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2) as cluster, Client(address) as client:
        cluster.remember_family()
        with Ui(default_monitor_address(address), "--port", 0) as ui, Watched(browser, ui.url) as watched:
            futures = client.get(graph, ["gate", "slow"], block=False)
            watched.open("graphs")
            watched.wait_for_text("2 on hosts", ".graph")
            watched.page.focus(".graph button.more")
            gate.open()
            watched.wait_for_text("1 done", ".graph")
            watched.page.keyboard.press("Enter")
            watched.wait_for_text("?", "#operation .answer")
            watched.page.click("#operation button.act")
            watched.wait_for_text("Cancelled", "#operation")
            watched.page.click("#operation button:has-text('Close')")
            wait_until(futures["slow"].cancelled)
            watched.wait_for_text("No graph runs")
            assert watched.errors == []


def test_the_card_of_a_graph_that_grows_counts_its_calls(browser: Browser, gate: Gate) -> None:
    """A call begins a graph, which calls with its result as an argument join, if a result of its function was an
    argument before."""
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1) as cluster, Client(address) as client:
        cluster.remember_family()
        with Ui(default_monitor_address(address), "--port", 0) as ui, Watched(browser, ui.url) as watched:
            client.submit(str, client.submit(functions.identity, 1)).result()
            futures = [client.submit(functions.identity, 1)]
            futures.append(client.submit(functions.wait_at_gate, *gate.paths, futures[-1]))
            watched.open("graphs")
            watched.wait_for_text("2 calls", ".graph")
            futures.append(client.submit(str, futures[-1]))
            watched.wait_for_text("3 calls", ".graph")
            gate.open()
            client.gather(futures)
            assert watched.errors == []


def act(watched: Watched, row: str, action: str, outcome: str, value: str = "") -> None:
    watched.page.click(f"tr:has-text('{row}') button.more")
    watched.page.click(f"#operation button:has-text('{action}')")
    if value:
        watched.page.fill("#operation input", value)
        watched.page.click("#operation button:has-text('Continue')")
    watched.wait_for_text("?", "#operation .answer")
    watched.page.click("#operation button.act")
    watched.wait_for_text(outcome, "#operation")
    watched.page.click("#operation button:has-text('Close')")


def change_ones_mind(watched: Watched, row: str, action: str, other: str) -> None:
    """Back leads from a question to the menu, and from there to the page."""
    watched.page.click(f"tr:has-text('{row}') button.more")
    for each in (action, other):
        watched.page.click(f"#operation button:has-text('{each}')")
        watched.wait_for_text("?", "#operation .answer")
        watched.page.click("#operation button:has-text('Back')")
        watched.wait_for_text(other, "#operation .choices")
    watched.page.click("#operation button:has-text('Back')")
    watched.wait_until("() => !document.querySelector('#operation').open")


def look(watched: Watched, row: str, action: str, wanted: str) -> None:
    """Wait for something in the report."""
    watched.page.click(f"tr:has-text('{row}') button.more")
    watched.page.click(f"#operation button:has-text('{action}')")
    watched.page.wait_for_selector(f"#operation {wanted}")
    watched.page.click("#operation button:has-text('Close')")


@pytest.mark.parametrize("flag", ["--no-actions", "--no-require-token"])
def test_pages_may_be_kept_from_acting(flag: str, browser: Browser) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1) as cluster:
        cluster.remember_family()
        with Ui(default_monitor_address(address), "--port", 0, flag) as ui, Watched(browser, ui.url) as watched:
            watched.open("workers")
            wait_for_rows(watched)
            assert watched.page.query_selector_all("button.more") == []
            script = """() => new Promise(resolve => {
                const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket');
                const said = { action: 0, target: 'vm', is_confirmed: true };
                socket.onopen = () => socket.send(JSON.stringify({ operate: said }));
                socket.onmessage = ({ data }) => data.includes('operated') && resolve(JSON.parse(data).operated.text);
            })"""
            assert "scaler_ui runs without actions" in watched.page.evaluate(script)


def test_a_recording_is_played_with_a_slider(tmp_path: Path, browser: Browser) -> None:
    address, folder = free_address(), tmp_path / "log"
    with start_scheduler(address, "--event-log", folder) as scheduler, start_cluster(address, "-n", 2) as cluster:
        cluster.remember_family()
        with Ui(default_monitor_address(address), "--port", 0) as ui, Watched(browser, ui.url) as watched:
            wait_until(lambda: number_in(watched, "Workers") == 2)
            with Client(address) as client:
                client.map(functions.square, range(500))
            wait_until(lambda: number_in(watched, "Succeeded") == 500)
        cluster.terminate()
        scheduler.terminate()
    with Ui("--replay", folder, "--port", 0) as ui, Watched(browser, ui.url) as watched:
        watched.wait_for_text("Replay", ".connection")
        slider = watched.page.get_by_role("slider", name="Time")
        slider.focus()
        watched.page.keyboard.press("End")
        wait_until(lambda: number_in(watched, "Succeeded") == 500)
        watched.page.keyboard.press("g")
        watched.page.keyboard.type("1999-01-01T00:00\n")
        watched.wait_for_text("Cannot go to 1999-01-01T00:00", "#notices")
        watched.open("tasks")
        watched.wait_until("() => document.querySelector('.count')?.textContent.includes('500')")
        watched.page.get_by_role("slider", name="Time").focus()
        watched.page.keyboard.press("Home")
        watched.wait_for_text("No task has ended")
        watched.page.get_by_role("combobox", name="Speed").select_option("64")
        watched.page.locator("main").focus()
        watched.wait_until("() => document.querySelector('.scrubber button')?.ariaLabel === 'Play'")
        watched.page.keyboard.press("Space")
        watched.wait_until("() => document.querySelector('.count')?.textContent.includes('500')")
        watched.wait_until("() => document.querySelector('.scrubber button')?.ariaLabel === 'Play'")
        assert watched.errors == []


def test_a_folder_without_a_recording_is_one_line(tmp_path: Path) -> None:
    assert str(tmp_path) in one_line("--replay", tmp_path)


def test_settings_from_environment_and_file(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "scaler.toml"
    file.write_text(f'[ui]\naddress = "ipc://{tmp_path}/monitor"\nport = {port}\n')
    with Ui("--config", file) as ui:
        assert ui.port == port
    with Ui("--config", file, SCALER_UI_PORT="0") as ui:
        assert ui.port != port
