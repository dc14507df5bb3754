"""Cancelling, limits, retries, priorities, capabilities, and the words that explain where a task is."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import NoWorkerError, TaskMemoryError, TaskTimeoutError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Stopwatch
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def able_combo() -> Iterator[SchedulerClusterCombo]:
    """Two workers, each with one gpu."""
    with SchedulerClusterCombo(2, per_worker_capabilities=["linux", "gpu=1"]) as running:
        yield running


@pytest.fixture
def able_client(able_combo: SchedulerClusterCombo) -> Iterator[Client]:
    with Client(able_combo.get_address()) as connected:
        yield connected


# ---- limits of time and memory ---------------------------------------------------------------------------------


def take_memory(size_bytes: int) -> int:
    return len(bytearray(size_bytes))


def test_a_timeout_says_which_task_and_which_limit(client: Client) -> None:
    with pytest.raises(TaskTimeoutError, match=r"sleep_and_return.*0\.2 seconds"):
        client.submit_verbose(functions.sleep_and_return, (30,), timeout_seconds=0.2).result(timeout=60)


def test_a_timeout_of_a_task_that_swallows_its_interrupt(single_client: Client, gate: Gate) -> None:
    watch = Stopwatch()
    future = single_client.submit_verbose(
        functions.swallow_interrupts, (str(gate.started), 30), timeout_seconds=0.2, rerun=True
    )
    with pytest.raises(TaskTimeoutError, match="swallow_interrupts"):
        future.result(timeout=60)
    assert watch.seconds < 25
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9
    assert len(functions.notes(gate.started)) == 1, "a task beyond its limit must not run again"


def test_a_timeout_of_a_task_that_raises_something_else_at_its_interrupt(client: Client) -> None:
    def slow() -> None:
        try:
            time.sleep(30)
        except BaseException:
            raise ValueError("the connection was interrupted") from None

    with pytest.raises(TaskTimeoutError, match="slow"):
        client.submit_verbose(slow, timeout_seconds=0.2, retries=3).result(timeout=60)


def test_a_timeout_is_not_retried_but_leaves_its_neighbours(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "runs")

    def slow() -> None:
        functions.note(path)
        time.sleep(30)

    future = client.submit_verbose(slow, timeout_seconds=0.2, retries=3)
    assert client.map(functions.square, range(20)) == [number**2 for number in range(20)]
    with pytest.raises(TaskTimeoutError):
        future.result(timeout=60)
    assert len(functions.notes(path)) == 1


def test_a_memory_limit_says_which_task_and_how_much(client: Client) -> None:
    with pytest.raises(TaskMemoryError, match="take_memory.*200000000 bytes"):
        client.submit_verbose(take_memory, (900_000_000,), memory_bytes=200_000_000).result(timeout=60)
    assert client.submit(functions.square, 3).result(timeout=60) == 9


# ---- cancelling ------------------------------------------------------------------------------------------------


def test_an_interrupt_frees_the_slot_at_once(single_client: Client, gate: Gate) -> None:
    def loop(started: str) -> None:
        functions.note(started, str(os.getpid()))
        while True:
            pass

    future = single_client.submit(loop, str(gate.started))
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel()
    assert single_client.submit(functions.process_id).result(timeout=60) == gate.waiting_pids[0]


def test_queued_tasks_of_a_cancelled_crowd_never_run(single_client: Client, gate: Gate, tmp_path: Path) -> None:
    path = str(tmp_path / "runs")
    running = single_client.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    crowd = [single_client.submit(functions.note, path) for _ in range(1000)]
    last = single_client.submit(functions.square, 3)
    assert all(future.cancel() for future in crowd)
    # Only the gate's task and the last one are left at the worker: no start can overtake a cancel any more.
    wait_until(lambda: "next to run (2 tasks" in single_client.explain(last))
    gate.open()
    assert last.result(timeout=60) == 9 and running.done()
    assert functions.notes(path) == []


def test_cancelling_a_parent_cancels_grandchildren(single_client: Client, gate: Gate) -> None:
    def parent(client: Client, levels: int, started: str, gate_path: str) -> None:
        if levels:
            client.submit(parent, client, levels - 1, started, gate_path).result()
        else:
            functions.wait_at_gate(started, gate_path)

    future = single_client.submit(parent, single_client, 3, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel()
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9


def test_children_of_a_killed_parent_are_cancelled(client: Client, gate: Gate, tmp_path: Path) -> None:
    """It runs again, and only the children of its last run count."""
    path = str(tmp_path / "children")

    def child(number: int, started: str, gate_path: str) -> int:
        functions.note(path, f"{number} begins")
        functions.wait_at_gate(started, gate_path)
        functions.note(path, f"{number} ends")
        return number

    def parent(nested: Client, started: str, gate_path: str) -> int:
        run = len(functions.notes(f"{path}-parents")) + 1
        functions.note(f"{path}-parents", str(os.getpid()))
        future = nested.submit(child, run, started, gate_path)
        return int(future.result())

    future = client.submit(parent, client, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    os.kill(int(functions.notes(f"{path}-parents")[0]), 9)
    wait_until(lambda: len(gate.waiting_pids) == 2)
    gate.open()
    assert future.result(timeout=60) == 2
    assert client.map(functions.square, range(4)) == [0, 1, 4, 9]
    assert "1 ends" not in functions.notes(path)


# ---- processes -------------------------------------------------------------------------------------------------


def test_beyond_the_limit_of_processes_an_error_names_it(single_client: Client) -> None:
    def depth(client: Client, levels: int) -> int:
        return 0 if levels == 0 else 1 + int(client.submit(depth, client, levels - 1).result())

    with pytest.raises(NoWorkerError, match=r"limit \(132\)"):
        single_client.submit(depth, single_client, 1000).result(timeout=50)
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9


# ---- retries and priorities ------------------------------------------------------------------------------------


def test_retries_are_not_for_cancelled_tasks(client: Client, gate: Gate) -> None:
    future = client.submit_verbose(functions.wait_at_gate, gate.paths, retries=5)
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel()
    assert client.submit(functions.square, 3).result(timeout=60) == 9
    assert len(gate.waiting_pids) == 1


def test_priorities_order_the_queue(single_client: Client, gate: Gate, tmp_path: Path) -> None:
    path = str(tmp_path / "order")
    single_client.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    futures = [
        single_client.submit_verbose(functions.note, (path, str(priority)), priority=priority)
        for priority in (0, 3, -2, 7, 3)
    ]
    gate.open()
    [future.result(timeout=60) for future in futures]
    # What a worker prefetched before the others came may go ahead: one task.
    order = [int(line) for line in functions.notes(path)]
    assert order[1:] == sorted(order[1:], reverse=True)


# ---- capabilities ----------------------------------------------------------------------------------------------


def test_a_capability_is_taken_while_a_task_runs(able_client: Client, gate: Gate, tmp_path: Path) -> None:
    started = str(tmp_path / "third")
    options = {"capabilities": {"gpu": 1}}
    running = [able_client.submit_verbose(functions.wait_at_gate, gate.paths, **options) for _ in range(2)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    third = able_client.submit_verbose(functions.note, (started,), capabilities={"gpu": 1})
    assert "gpu=1" in able_client.explain(third) and "taken by other tasks" in able_client.explain(third)
    assert functions.notes(started) == []
    gate.open()
    [future.result(timeout=60) for future in running]
    third.result(timeout=60)


def test_two_gpus_are_more_than_a_worker_has(able_client: Client) -> None:
    hopeless = [able_client.submit_verbose(functions.square, (3,), capabilities={"gpu": 2}) for _ in range(100)]
    assert able_client.map(functions.square, range(100)) == [number**2 for number in range(100)]
    assert able_client.submit_verbose(functions.square, (3,), capabilities=["gpu", "linux"]).result(timeout=60) == 9
    assert "gpu=2" in able_client.explain(hopeless[0])
    assert all(future.cancel() for future in hopeless)


def test_counted_capabilities_of_a_worker_with_several() -> None:
    """Two slots could run four of these by time, resources let one."""
    with SchedulerClusterCombo(1, per_worker_capabilities=["gpu=2"]) as combo, Client(combo.get_address()) as client:
        both = client.submit_verbose(functions.square, (3,), capabilities={"gpu": 2})
        assert both.result(timeout=60) == 9
        assert client.map(functions.square, range(50), capabilities={"gpu": 1}) == [number**2 for number in range(50)]


def test_parents_that_hold_a_capability_wait_for_their_children(able_client: Client) -> None:
    def parent(client: Client) -> int:
        return int(client.submit(functions.square, 3).result())

    futures = [able_client.submit_verbose(parent, (able_client,), capabilities={"gpu": 1}) for _ in range(6)]
    assert [future.result(timeout=60) for future in futures] == [9] * 6


# ---- explain ---------------------------------------------------------------------------------------------------


def test_explain_a_running_a_queued_and_a_finished_task(single_client: Client, gate: Gate) -> None:
    running = single_client.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    queued = [single_client.submit(functions.square, number) for number in range(3000)]
    assert "pid" in single_client.explain(running) and "running" in single_client.explain(running)
    wait_until(lambda: "busy" in single_client.explain(queued[-1]))
    assert "queued" in single_client.explain(queued[-1])
    gate.open()
    running.result(timeout=60)
    assert "ended" in single_client.explain(running) or "finished" in single_client.explain(running)


def test_explain_without_a_worker() -> None:
    with SchedulerClusterCombo(0) as combo, Client(combo.get_address()) as client:
        future = client.submit(functions.square, 3)
        wait_until(lambda: "no worker is connected" in client.explain(future))  # when the scheduler has it


def test_explain_inputs_that_are_not_there(client: Client, gate: Gate) -> None:
    graph = {
        "paths": gate.started, "gate": gate.gate, "first": (functions.wait_at_gate, "paths", "gate"),
        "second": (functions.identity, "first"),
    }  # fmt: skip
    futures = client.get(graph, ["second", "first"], block=False)
    wait_until(lambda: gate.waiting_pids)
    text = client.explain(futures["second"])
    assert "waits" in text or "next to run" in text, text
    gate.open()
    futures["second"].result(timeout=60)


def test_explain_a_cancelled_task(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths)
    future.cancel()
    assert client.explain(future)


# ---- profiling -------------------------------------------------------------------------------------------------


def test_profiling_tells_wall_from_processor_time(client: Client) -> None:
    sleeping = client.submit(functions.sleep_and_return, 0.3)
    spinning = client.submit(functions.spend_processor_time, 0.2)
    sleeping.result(timeout=60), spinning.result(timeout=60)
    assert sleeping.profiling_info().duration_s >= 0.3 > 0.15 > sleeping.profiling_info().cpu_time_s
    assert 0.19 < spinning.profiling_info().cpu_time_s <= spinning.profiling_info().duration_s + 0.1


def test_peak_memory_is_of_the_task_alone(single_client: Client) -> None:
    large = single_client.submit_verbose(take_memory, (300_000_000,), profiling=True)
    large.result(timeout=60)
    small = single_client.submit_verbose(take_memory, (1000,), profiling=True)
    small.result(timeout=60)
    assert large.profiling_info().peak_memory >= 300_000_000
    assert small.profiling_info().peak_memory < 250_000_000
    assert large.profiling_info().memory_peak == large.profiling_info().peak_memory


def test_profiling_of_a_failed_task(client: Client) -> None:
    future = client.submit(functions.raise_value_error, "failed")
    assert isinstance(future.exception(timeout=60), ValueError)
    assert future.profiling_info().duration_us >= 0


def test_profiling_of_a_cancelled_task_is_an_error(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths)
    with pytest.raises(ValueError, match="."):
        future.profiling_info()


SLOW_MODULE = """
import pathlib, sys, time
if hasattr(sys, __name__):
    raise ImportError("cannot load module more than once per process")
setattr(sys, __name__, True)
pathlib.Path(__file__ + ".begun").touch()
time.sleep({seconds})
"""


@pytest.mark.parametrize(("name", "seconds"), [("slow_module", 0.5), ("very_slow_module", 30)])
def test_a_cancel_during_an_import_does_not_break_later_tasks(
    single_client: Client, tmp_path: Path, name: str, seconds: float
) -> None:
    """As with numpy. A short import ends before the task does; a process with a long one is replaced."""

    def use(folder: str) -> int:
        if folder not in sys.path:
            sys.path.insert(0, folder)
        importlib.import_module(name)
        time.sleep(0.1 if os.path.exists(f"{folder}/cancelled") else 30)
        return 5

    (tmp_path / f"{name}.py").write_text(SLOW_MODULE.format(seconds=seconds))
    future = single_client.submit(use, str(tmp_path))
    wait_until(lambda: (tmp_path / f"{name}.py.begun").exists())
    future.cancel()
    with pytest.raises(CancelledError):
        future.result(timeout=50)
    (tmp_path / "cancelled").touch()
    (tmp_path / f"{name}.py").write_text(SLOW_MODULE.format(seconds=0))
    assert single_client.submit(use, str(tmp_path)).result(timeout=50) == 5
