"""What notebooks show of clients and futures, and progress while the application waits."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from scaler import Client
from scaler.client import gathering, progress
from tests.support.functions import increment
from tests.support.waiting import wait_until


def wait_for(lock: Any) -> int:
    with lock:
        return 1


def test_a_client_shows_its_cluster(client: Client) -> None:
    wait_until(lambda: client.n_workers == 2)
    html = client._repr_html_()
    assert "<table>" in html and "2 on 1 host<" in html


def test_a_client_that_has_left_says_so(client: Client) -> None:
    client.disconnect()
    assert "State" in client._repr_html_()


def test_the_state_of_a_cluster_shows_its_figures_at_a_glance(client: Client) -> None:
    client.submit(len, "ab").result()
    info = client.cluster_info()
    assert "Tasks waiting" in info._repr_html_()
    assert re.fullmatch(r"<ClusterInfo tcp://\S+ workers: \d+ on 1 host, .*tasks waiting: 0, clients: 1>", repr(info))


def test_a_future_shows_its_function_and_state(client: Client) -> None:
    lock = client.lock("gate")
    with lock:
        future = client.submit(wait_for, lock)
        assert "state=running function=wait_for" in repr(future)
        held = client.submit(increment, future)
        assert "function=increment" in repr(held)
        assert "<td" in future._repr_html_() and "wait_for" in future._repr_html_()
    assert held.result() == 2
    assert "state=finished" in repr(held)


def test_names_are_escaped(client: Client) -> None:
    named: Any = lambda: 1  # noqa: E731
    named.__qualname__ = "<script>"
    assert "&lt;script&gt;" in client.submit(named)._repr_html_()


def test_the_futures_of_a_graph_show_their_states(client: Client) -> None:
    lock = client.lock("gate")
    with lock:
        graph = {"one": 1, "two": (increment, "one"), "lock": lock, "late": (wait_for, "lock")}
        futures: Any = client.get(graph, ["two", "late"], block=False)
        assert futures["two"].result() == 2
        html = futures._repr_html_()
        assert "1 finished, 1 running" in html and ">late<" in html
        assert "1 of 2 ended" in repr(futures)
    assert futures["late"].result() == 1
    assert dict(futures) == futures and "2 finished" in futures._repr_html_()
    keys = [f"n{place}" for place in range(30)]
    many: Any = client.get({"one": 1, **dict.fromkeys(keys, (increment, "one"))}, keys, block=False)
    assert "10 more" in many._repr_html_()


class Shown:
    """Has a representation for notebooks, which its actor has not."""

    def _repr_html_(self) -> str:
        return "<b>shown</b>"


def test_notebooks_show_actors_without_a_call(client: Client) -> None:
    assert not hasattr(client.actor(Shown), "_repr_html_")


class Bar:
    """Counts what a progress bar would show."""

    def __init__(self, total: int) -> None:
        self.total, self.count = total, 0

    def update(self, count: int) -> None:
        self.count += count

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    made: list[Bar] = []

    def make(total: int, _: str) -> Bar:
        made.append(Bar(total))
        return made[-1]

    monkeypatch.setattr(progress, "progress_bar", make)
    return made


def test_gather_shows_how_many_futures_have_ended(client: Client, bars: list[Bar]) -> None:
    futures = {"a": [client.submit(increment, number) for number in range(50)], "b": client.submit(increment, 50)}
    assert client.gather(futures, progress=True) == {"a": list(range(1, 51)), "b": 51}
    assert [(bar.total, bar.count) for bar in bars] == [(51, 51)]
    assert client.gather(futures)["b"] == 51 and len(bars) == 1


def test_a_failure_ends_the_bar(client: Client, bars: list[Bar]) -> None:
    lock = client.lock("gate")
    with lock:
        slow = client.submit(wait_for, lock)
        with pytest.raises(ZeroDivisionError):
            client.gather([client.submit(divmod, 1, 0), slow], progress=True)
        counted = bars[0].count
    assert slow.result() == 1 and bars[0].count == counted == 1


def test_futures_that_end_in_other_threads_are_counted_once(client: Client, bars: list[Bar]) -> None:
    futures = [client.submit(increment, number) for number in range(200)]
    threads = [threading.Thread(target=client.gather, args=(futures,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    with progress.progress_of(gathering.futures_in(futures), "futures"):
        client.wait(futures)
        for thread in threads:
            thread.join()
    assert bars[0].count == 200


def test_a_panel_shows_the_cluster_and_follows_it(client: Client) -> None:
    display = pytest.importorskip("IPython.display")
    shown: list[str] = []

    class Handle:
        def update(self, page: Any) -> None:
            shown.append(page.data)

    def show(page: Any, display_id: bool = False) -> Handle:
        shown.append(page.data)
        return Handle()

    lock = client.lock("panel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(display, "display", show)
        panel = client.monitor(0.1)
        panel._ipython_display_()
        with lock:
            futures = [client.submit(wait_for, lock) for _ in range(5)]
            wait_until(lambda: "5 remaining" in shown[-1])
            assert "function wait_for" in shown[-1]
        for future in futures:
            future.result(60)
        wait_until(lambda: "wait_for" not in shown[-1])
        panel.stop()
    assert "LivePanel" in repr(panel)


def test_a_panel_marks_names_that_it_cuts(client: Client) -> None:
    def long_name(lock: Any) -> None:
        wait_for(lock)

    long_name.__name__ = long_name.__qualname__ = "simulate_" * 10
    lock = client.lock("long name")
    with lock:
        future = client.submit(long_name, lock)
        panel = client.monitor()
        wait_until(lambda: "simulate_" in panel._repr_html_() or panel._refresh())
        page = panel._repr_html_()
    future.result(60)
    assert f'title="function {"simulate_" * 10}"' in page
    assert re.search(r">function (simulate_)*\w*…<", page)


def test_a_panel_of_a_client_that_has_left_says_so(client: Client) -> None:
    client.disconnect()
    panel = client.monitor()
    assert "Not up to date any more" in panel._repr_html_()
    with pytest.raises(ValueError, match="Choose an interval"):
        client.monitor(0)
