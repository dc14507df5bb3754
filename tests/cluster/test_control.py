"""Operators act on a running cluster: they pause and drain workers, and cancel tasks of others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ControlError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import free_address, start_cluster, start_scheduler
from tests.support.waiting import wait_until


@pytest.fixture
def operator(combo: SchedulerClusterCombo) -> Iterator[Client]:
    with Client(combo.get_address()) as connected:
        yield connected


def test_paused_workers_get_no_tasks_until_they_are_resumed(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-wn", "a"), Client(address) as client:
        client.submit(functions.square, 2).result(30)
        [worker] = client.cluster_info().workers
        assert client.pause_workers(worker.name) == [worker.agent]
        waiting = client.submit(functions.wait_at_gate, *gate.paths)
        assert "paused" in client.explain(waiting)
        with start_cluster(address, "-n", 1, "-wn", "b"):
            wait_until(lambda: gate.waiting_pids)
            assert gate.waiting_pids != [worker.pid]
            second = client.submit(functions.process_id)
            client.resume_workers(worker.name)
            assert second.result(30) == worker.pid
            gate.open()
            waiting.result(30)


def test_a_drained_agent_ends_after_its_running_task(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1) as leaving, Client(address) as client:
        running = client.submit(functions.wait_at_gate, *gate.paths)
        queued = client.submit(functions.process_id)
        wait_until(lambda: gate.waiting_pids)
        [worker] = client.cluster_info().workers
        assert client.drain_workers(worker.host) == [worker.agent]
        with start_cluster(address, "-n", 1):
            assert queued.result(30) != worker.pid
            gate.open()
            running.result(30)
            assert leaving.wait() == 0
            assert client.submit(functions.square, 3).result(30) == 9


def test_the_tasks_of_a_client_are_cancelled(client: Client, operator: Client, gate: Gate) -> None:
    futures = [client.submit(functions.wait_at_gate, *gate.paths) for _ in range(5)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    assert operator.cancel_tasks(client=client.identity.hex()[:8]) == 5
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(30)
    assert client.submit(functions.square, 3).result(30) == 9


def test_the_tasks_of_a_function_are_cancelled_in_maps_and_graphs(client: Client, operator: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths)
    graph = {"path": gate.paths[0], "gate": gate.paths[1], "a": (functions.wait_at_gate, "path", "gate")}
    targets = client.get({**graph, "b": (functions.total, "a")}, ["b"], block=False)
    dependant = client.submit(functions.square, future)
    other = client.submit(functions.square, 4)
    wait_until(lambda: len(gate.waiting_pids) == 2)
    assert operator.cancel_tasks(function="wait_at_gate") == 2
    for each in (future, targets["b"], dependant):
        with pytest.raises(CancelledError):
            each.result(30)
    assert other.result(30) == 16


def test_what_does_not_exist_is_a_clear_error(client: Client) -> None:
    with pytest.raises(ControlError, match="Cannot pause 'nowhere': no agent, worker or host has this name"):
        client.pause_workers("nowhere")
    with pytest.raises(ControlError, match="no client has an id that begins so"):
        client.cancel_tasks(client="ffffffffffffffff")
    with pytest.raises(TypeError, match="either client or function"):
        client.cancel_tasks()
