"""Progress bars: every call that waits for many tasks can show one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from tests.cluster.conftest import Gate
from tests.support.functions import add, fail, increment, square, wait_at_gate

pytest.importorskip("tqdm")


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    return lambda: capsys.readouterr().err


def test_a_map(client: Client, shown: Callable[[], str]) -> None:
    assert client.map(square, range(100), progress=True) == [n * n for n in range(100)]
    assert "square: 100%" in shown()


def test_results_taken_from_imap(client: Client, shown: Callable[[], str]) -> None:
    assert list(client.imap(add, range(100), [1] * 50, progress=True)) == list(range(1, 51))
    bar = shown()
    assert "add: 100%" in bar
    assert "50/50" in bar
    assert sorted(client.imap_unordered(increment, range(10), progress=True)) == list(range(1, 11))
    assert "increment: 100%" in shown()


def test_imap_over_an_iterable_without_a_length(client: Client, shown: Callable[[], str]) -> None:
    assert list(client.imap(increment, (n for n in range(10)), progress=True)) == list(range(1, 11))
    assert "increment: 10task" in shown()


def test_an_imap_that_is_left_early(client: Client, shown: Callable[[], str]) -> None:
    results = client.imap(increment, range(100), buffer_size=5, progress=True)
    assert next(results) == 1
    results.close()
    assert shown().endswith("\n")


def test_wait(client: Client, shown: Callable[[], str]) -> None:
    futures = [client.submit(square, n) for n in range(20)]
    assert client.wait(iter(futures), progress=True).done == set(futures)
    assert "wait: 100%" in shown()


def test_a_graph_counts_all_its_calls(client: Client, shown: Callable[[], str]) -> None:
    graph = {"one": 1, "a": (increment, "one"), "b": (increment, "a"), "sum": (add, "a", "b")}
    assert client.get(graph, ["sum", "one"], progress=True) == {"sum": 5, "one": 1}
    bar = shown()
    assert "get: 100%" in bar
    assert "3/3" in bar


def test_a_graph_with_futures(client: Client, shown: Callable[[], str]) -> None:
    graph = {"one": client.submit(increment, 0), "a": (increment, "one")}
    assert client.get(graph, ["a"], progress=True) == {"a": 2}
    assert "1/1" in shown()


def test_a_graph_that_fails(client: Client, shown: Callable[[], str]) -> None:
    with pytest.raises(ValueError, match="no 1"):
        client.get({"a": (fail, "one"), "one": 1, "b": (increment, "a")}, ["b"], progress=True)
    assert shown().endswith("\n")


def test_a_graph_of_dask(client: Client, shown: Callable[[], str]) -> None:
    dask = pytest.importorskip("dask")
    total = dask.delayed(sum)([dask.delayed(square)(n) for n in range(5)])
    assert total.compute(scheduler=client, progress=True) == 30
    assert "get: 100%" in shown()


@pytest.mark.parametrize("value", ["foo", "", None, 2])
def test_what_is_neither_true_nor_false_is_refused(client: Client, value: Any) -> None:
    with client.as_executor() as executor:
        methods: list[Callable[..., Any]] = [client.map, client.imap, client.imap_unordered, executor.map]
        calls: list[Callable[[], object]] = [
            *(partial(method, increment, [1], progress=value) for method in methods),
            lambda: client.starmap(increment, [(1,)], progress=value),
            lambda: client.get({"one": 1, "a": (increment, "one")}, ["a"], progress=value),
            lambda: client.gather([], progress=value),
            lambda: client.wait([], progress=value),
        ]
        for call in calls:
            with pytest.raises(TypeError, match=f"^progress must be True or False, not {value!r}.$"):
                call()


def test_true_and_false_of_numpy(client: Client, shown: Callable[[], str]) -> None:
    numpy = pytest.importorskip("numpy")
    assert client.map(square, [1], progress=numpy.True_) == [1]
    assert "square: 100%" in shown()
    assert client.map(square, [1], progress=numpy.False_) == [1]
    assert not shown()


def test_bars_of_rich_if_tqdm_is_not_installed(
    client: Client, shown: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert client.map(square, range(100), progress=True) == [n * n for n in range(100)]
    bar = shown()
    assert bar.startswith("square ")
    assert "100/100" in bar
    assert list(client.imap(increment, (n for n in range(10)), progress=True)) == list(range(1, 11))
    assert "10/?" in shown()
    with pytest.raises(ValueError, match="no 3"):
        client.map(fail, [3], progress=True)
    assert "1/1" in shown()


def test_bars_of_rich_in_a_notebook(client: Client, shown: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    console = pytest.importorskip("rich.console")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.setattr(console, "_is_jupyter", lambda: True)
    client.map(square, range(100), progress=True)
    assert "100/100" in shown()


def test_a_bar_of_rich_is_drawn_when_it_is_full(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = pytest.importorskip("rich.progress")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    drawn = []
    monkeypatch.setattr(
        progress.Progress, "refresh", lambda self: drawn.append((self.live.is_started, self.tasks[0].completed))
    )
    client.map(square, range(100), progress=True)
    assert drawn[-1] == (True, 100)


# ---- coroutines ------------------------------------------------------------------------------------------------------


def run(combo: SchedulerClusterCombo, body: Callable[[AsyncClient], Awaitable[object]]) -> None:
    async def main() -> None:
        async with AsyncClient(combo.get_address()) as client:
            await body(client)

    asyncio.run(main())


def make_bytes(size: int) -> bytes:
    return bytes(size)


def test_coroutines(combo: SchedulerClusterCombo, shown: Callable[[], str]) -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(5):
            yield number

    async def body(client: AsyncClient) -> None:
        assert await client.map(square, range(10), progress=True) == [n * n for n in range(10)]
        assert "square: 100%" in shown()
        futures = [client.submit(increment, n) for n in range(20)]
        assert await client.gather([futures, futures[0]], progress=True) == [list(range(1, 21)), 1]
        bar = shown()
        assert "gather: 100%" in bar
        assert "20/20" in bar
        assert await client.wait(futures, progress=True) == (set(futures), set())
        assert "wait: 100%" in shown()
        assert [n async for n in client.imap(add, range(10), [1] * 5, progress=True)] == [1, 2, 3, 4, 5]
        assert "add: 100%" in shown()
        assert {n async for n in client.imap_unordered(increment, numbers(), progress=True)} == {1, 2, 3, 4, 5}
        assert "increment: 5task" in shown()
        graph = {"one": 1, "a": (increment, "one"), "b": (increment, "a"), "sum": (add, "a", "b")}
        assert await client.get(graph, ["sum"], progress=True) == {"sum": 5}
        bar = shown()
        assert "get: 100%" in bar
        assert "3/3" in bar

    run(combo, body)


def test_a_wait_of_a_coroutine_fetches_nothing(combo: SchedulerClusterCombo, shown: Callable[[], str]) -> None:
    async def body(client: AsyncClient) -> None:
        large = [client.submit(make_bytes, 1_000_000) for _ in range(3)]
        await client.wait(large[:2])
        assert await client.wait(large, progress=True) == (set(large), set())
        assert "3/3" in shown()
        assert not any(each.is_fetched for each in large)

    run(combo, body)


def test_coroutines_that_are_left_early(combo: SchedulerClusterCombo, shown: Callable[[], str], gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        held = client.submit(wait_at_gate, *gate.paths, 3)
        done, pending = await client.wait([client.submit(square, 3), held], 0, progress=True)
        assert held in pending
        assert shown().endswith("\n")
        with pytest.raises(ValueError, match="no 1"):
            await client.gather([held, client.submit(fail, 1)], progress=True)
        assert "1/2" in shown()
        async for _ in client.imap(square, range(100), buffer_size=5, progress=True):
            break
        started, path = gate.paths
        graph = {"started": started, "path": path, "a": (wait_at_gate, "started", "path"), "b": (square, "a")}
        getting = asyncio.create_task(client.get(graph, ["b"], progress=True))
        while sum((await client.cluster_info()).unfinished) < 3:
            await asyncio.sleep(0.01)
        getting.cancel()
        while sum((await client.cluster_info()).unfinished) > 1:
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await getting
        gate.open()
        assert await held == 3

    run(combo, body)
    assert shown().endswith("\n")


def test_cancelled_coroutines_do_not_fill_their_bars(
    combo: SchedulerClusterCombo, shown: Callable[[], str], gate: Gate
) -> None:
    started, path = gate.paths
    graph = {"started": started, "path": path, "a": (wait_at_gate, "started", "path"), "b": (square, "a")}
    calls: list[Callable[[AsyncClient], Awaitable[object]]] = [
        lambda client: client.gather([client.submit(wait_at_gate, started, path) for _ in range(2)], progress=True),
        lambda client: client.map(wait_at_gate, [started] * 2, [path] * 2, progress=True),
        lambda client: client.get(graph, ["b"], progress=True),
    ]

    async def body(client: AsyncClient) -> None:
        for call in calls:
            waiting = asyncio.ensure_future(call(client))
            while sum((await client.cluster_info()).unfinished) < 2:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            while sum((await client.cluster_info()).unfinished):
                await asyncio.sleep(0.01)
            bar = shown()
            assert "0/2" in bar and "1/2" not in bar and "2/2" not in bar

    run(combo, body)


@pytest.mark.parametrize("value", ["foo", None])
def test_what_is_neither_true_nor_false_is_refused_by_coroutines(combo: SchedulerClusterCombo, value: Any) -> None:
    async def body(client: AsyncClient) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: client.map(square, [1], progress=value),
            lambda: anext(client.imap(square, [1], progress=value)),
            lambda: anext(client.imap_unordered(square, [1], progress=value)),
            lambda: client.get({"one": 1}, ["one"], progress=value),
            lambda: client.gather([], progress=value),
            lambda: client.wait([], progress=value),
        ]
        for call in calls:
            with pytest.raises(TypeError, match=f"^progress must be True or False, not {value!r}.$"):
                await call()

    run(combo, body)
