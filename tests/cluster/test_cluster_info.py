"""``Client.cluster_info`` and ``Client.n_workers``: a program sees what the screens show."""

from __future__ import annotations

import dataclasses
import os
import socket

import pytest

from scaler import Client
from scaler.client.cluster_info import ClusterInfo, WorkerInfo
from scaler.utility.exceptions import ClientQuitException, DisconnectedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

RARELY = 100
"""Seconds between the reports of an agent: none is due in a test."""


class Ledger:
    def add(self, amount: int) -> int:
        return amount


def test_counts_and_rows(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2, "-wn", "left,right", "-hi", 0.1):
        with Client(address) as client:
            client.map(functions.square, range(100))
            busy = client.submit(functions.wait_at_gate, *gate.paths)
            wait_until(lambda: gate.waiting_pids)
            info = client.cluster_info()
            assert (info.tasks.success, info.tasks.running) == (100, 1)
            assert info.snapshot.tasks is info.tasks
            wait_until(lambda: any(worker.is_busy for worker in client.cluster_info().workers))
            assert any("square" in row.name for row in client.cluster_info().functions)
            assert [each.pid for each in info.clients] == [os.getpid()]
            wait_until(lambda: client.cluster_info().running)
            info = client.cluster_info()
            (running,) = info.running
            assert info.unfinished == (0, 0, 1)
            assert running.pid == gate.waiting_pids[0] and running.worker in ("left", "right")
            assert running.function == "wait_at_gate" and 1 <= running.seconds < 60
            assert not running.is_blocked and not running.suspicion
            gate.open()
            busy.result()


def test_names_and_priorities_of_what_runs_and_waits(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2, "-hi", 0.1), Client(address) as client:
        ledger = client.actor_verbose(Ledger, name="ledger")
        ledger.add(1).result()
        busy = client.submit_verbose(functions.wait_at_gate, gate.paths, priority=-2)
        wait_until(lambda: gate.waiting_pids)
        for priority in (0, 4):
            client.submit_verbose(functions.square, (2,), priority=priority, capabilities={"gpu": 1})
        wait_until(lambda: len(client.cluster_info().running) == 2)
        info = client.cluster_info()
        assert {(each.function, each.actor_name, each.priority) for each in info.running} == {
            ("Ledger", "ledger", 0), ("wait_at_gate", "", -2),
        }  # fmt: skip
        assert {each.client for each in info.running} == {each.session.hex()[:8] for each in info.clients}
        assert [each.name for each in info.actors] == ["ledger"]
        assert [(each.count, each.lowest_priority, each.highest_priority) for each in info.waits] == [(2, 0, 4)]
        gate.open()
        busy.result()


def test_workers_are_known_with_the_first_result() -> None:
    address = free_address()
    with (
        start_scheduler(address),
        start_cluster(address, "-n", 3, "-wn", "a,b,c", "-hi", RARELY),
        Client(address) as client,
    ):
        pid = client.submit(functions.process_id).result()
        assert client.n_workers == 3
        info = client.cluster_info()
        assert [worker.name for worker in info.workers] == ["a", "b", "c"]
        assert pid in [worker.pid for worker in info.workers if worker.is_ready]
        assert {worker.host for worker in info.workers} == {socket.gethostname()}
        assert all(worker.is_connected and worker.agent == info.agents[0].name for worker in info.workers)
        wait_until(lambda: all(worker.is_ready and worker.pid for worker in client.cluster_info().workers))


def test_workers_of_an_agent_that_comes_back_to_another_scheduler() -> None:
    address = free_address()
    with start_cluster(address, "-n", 2, "-hi", RARELY):
        for _ in range(2):
            with start_scheduler(address) as scheduler, Client(address) as client:
                pid = client.submit(functions.process_id).result()
                assert client.n_workers == 2
                assert pid in [worker.pid for worker in client.cluster_info().workers]
                scheduler.kill()


def test_a_worker_that_was_replaced(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-hi", RARELY), Client(address) as client:
        before = client.submit(functions.process_id).result()
        client.submit_verbose(functions.exit_process, (str(gate.started),), rerun=False).exception()
        after = client.submit(functions.process_id).result()
        assert before != after and [worker.pid for worker in client.cluster_info().workers] == [after]


def test_rows_have_named_fields_that_do_not_change() -> None:
    for row in (ClusterInfo, WorkerInfo):
        assert dataclasses.is_dataclass(row) and row.__doc__
        assert row.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_no_workers() -> None:
    address = free_address()
    with start_scheduler(address), Client(address) as client:
        assert client.n_workers == 0 and client.cluster_info().workers == ()


def info_from_inside() -> int:
    with Client() as client:
        return client.cluster_info().tasks.running + 10 * client.n_workers


def test_inside_a_task(client: Client) -> None:
    assert client.submit(info_from_inside).result() == 21


def test_without_a_scheduler_it_ends_with_the_timeout() -> None:
    address = free_address()
    with start_scheduler(address) as scheduler:
        client = Client(address, timeout_seconds=1)
        scheduler.kill()
        with pytest.raises(DisconnectedError):
            client.cluster_info()
        client.disconnect()
        with pytest.raises(ClientQuitException):
            client.cluster_info()
