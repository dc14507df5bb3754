"""Graphs while schedulers and agents die; and what graphs leave behind."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from scaler_protocol.address import parse_address
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


def noted_sum(path: str, seconds: float, name: str, *values: int) -> int:
    functions.note(path, name)
    time.sleep(seconds)
    return sum(values) % 1_000_003


def layered(path: str, layers: int, width: int, seconds: float) -> tuple[dict[str, Any], list[str], list[int]]:
    """Each node needs three of the layer below, and leaves a note each time it runs."""
    graph: dict[str, Any] = {f"0-{index}": index for index in range(width)}
    values = list(range(width))
    for layer in range(1, layers + 1):
        below, values = values, []
        for index in range(width):
            needed = [(index * factor + layer) % width for factor in (1, 3, 7)]
            call = functools.partial(noted_sum, path, seconds, f"{layer}-{index}")
            graph[f"{layer}-{index}"] = (call, *(f"{layer - 1}-{number}" for number in needed))
            values.append(sum(below[number] for number in needed) % 1_000_003)
    return graph, [f"{layers}-{index}" for index in range(width)], values


def test_a_scheduler_restarts_in_the_middle_of_a_graph(tmp_path: Path) -> None:
    address, path = free_address(), str(tmp_path / "ran")
    graph, keys, expected = layered(path, 20, 50, 0.002)
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 2), Client(address) as client:
            futures = client.get(graph, keys, block=False)
            wait_until(lambda: len(functions.notes(path)) > 300)
            first.kill()
            with start_scheduler(address):
                assert [futures[key].result(60) for key in keys] == expected
            ran = functions.notes(path)
            assert len(set(ran)) == 1000
            assert len(ran) == 1000, f"{len(ran) - 1000} nodes ran twice although their agent lived"
    finally:
        first.__exit__()


def test_an_agent_dies_in_the_middle_of_a_graph(tmp_path: Path) -> None:
    address, path = free_address(), str(tmp_path / "ran")
    graph, keys, expected = layered(path, 20, 50, 0.002)
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        with start_cluster(address, "-n", 1) as doomed:
            wait_until(lambda: client.n_workers == 2)
            futures = client.get(graph, keys, block=False)
            wait_until(lambda: len(functions.notes(path)) > 300)
            doomed.kill()
            assert [futures[key].result(60) for key in keys] == expected
        assert len(set(functions.notes(path))) == 1000


def test_large_intermediates_of_a_dead_agent_are_made_again(tmp_path: Path) -> None:
    address, path = free_address(), str(tmp_path / "ran")
    graph: dict[str, Any] = {"size": 1_000_000, "seconds": 0.01}
    for index in range(40):
        graph[f"made-{index}"] = (functools.partial(noted_bytes, path, str(index)), "size")
        before = [f"length-{index - 1}"] if index else []
        graph[f"length-{index}"] = (slow_length, "seconds", f"made-{index}", *before)
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        with start_cluster(address, "-n", 1) as doomed:
            wait_until(lambda: client.n_workers == 2)
            future = client.get(graph, ["length-39"], block=False)["length-39"]
            wait_until(lambda: len(functions.notes(path)) > 20)
            doomed.kill()
            assert future.result(60) == 40_000_000


def noted_bytes(path: str, name: str, size: int) -> bytes:
    functions.note(path, name)
    return os.urandom(size)


def slow_length(seconds: float, made: bytes, before: int = 0) -> int:
    time.sleep(seconds)
    return before + len(made)


# ---- nothing leaks ------------------------------------------------------------------------------------------------


def descriptors(processes: list[psutil.Process]) -> dict[int, int]:
    return {process.pid: process.num_fds() for process in processes if process.is_running()}


def fail(*_: Any) -> Any:
    raise ValueError("no")


def graphs_of_every_end(client: Client) -> None:
    graph: dict[str, Any] = {"size": 200_000, "data": os.urandom(100_000)}
    graph |= {f"made{index}": (os.urandom, "size") for index in range(20)}
    graph["all"] = (lambda *values: sum(map(len, values)), "data", *(f"made{index}" for index in range(20)))
    graph["bad"] = (fail, "all", "made3")
    assert client.get(graph, ["all"])["all"] == 4_100_000
    assert len(client.get(graph, ["made1", "all"])["made1"]) == 200_000
    with pytest.raises(ValueError, match="no"):
        client.get(graph, ["bad", "made5"])
    client.get(graph, ["all", "made2"], block=False)["all"].cancel()
    futures = client.get(graph, ["made0", "made1", "all"], block=False)
    futures["all"].result(60)
    del futures


def test_graphs_leave_no_objects_behind() -> None:
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
        session = client._client_io.session
        for _ in range(3):
            graphs_of_every_end(client)
        processes = psutil.Process().children(recursive=True)
        wait_until(lambda: not (session.has_unfinished or session.objects.uploads))
        before = descriptors(processes)
        for _ in range(10):
            graphs_of_every_end(client)
        wait_until(lambda: not (session.has_unfinished or session.objects.uploads))

        def settled() -> bool:
            after = descriptors(processes)
            return all(after[pid] <= before[pid] + 8 for pid in after)

        wait_until(settled, what=f"{before} {descriptors(processes)}")


def test_memory_stays_flat() -> None:
    graph: dict[str, Any] = {"size": 1_000}
    graph |= {f"a{index}": (os.urandom, "size") for index in range(2000)}
    graph |= {f"b{index}": (len, f"a{index}") for index in range(2000)}
    graph["all"] = (lambda *values: sum(values), *(f"b{index}" for index in range(2000)))
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
        for _ in range(3):
            client.get(graph, ["all"])
        wait_until(Path(parse_address(combo.get_monitor_address()).path).exists)  # the publisher has started, too
        processes = psutil.Process().children(recursive=True)
        before = {process.pid: process.memory_info().rss for process in processes}
        for _ in range(15):
            assert client.get(graph, ["all"]) == {"all": 2_000_000}
        grown = {process.pid: process.memory_info().rss - before[process.pid] for process in processes}
        assert all(size < 20_000_000 for size in grown.values()), grown
