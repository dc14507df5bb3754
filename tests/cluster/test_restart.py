"""The scheduler is killed and started again on the same port: its state is soft, nothing is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path

import pytest

from scaler import Client
from scaler.utility.exceptions import DisconnectedError, WorkerDiedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Command, Stopwatch, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


def note_and_square(path: str, value: int) -> int:
    functions.note(path, str(value))
    return functions.spin_and_square(value, 0.0003)


def note_and_make(path: str, size: int) -> bytes:
    functions.note(path, str(size))
    return bytes(size)


@contextmanager
def cluster_that_loses_its_scheduler() -> Iterator[tuple[str, Command, Client]]:
    """With one worker: its address, its scheduler, and a client."""
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 1), Client(address) as client:
        yield address, first, client


def test_twenty_thousand_tasks_across_a_restart(tmp_path: Path) -> None:
    address, path = free_address(), str(tmp_path / "ran")
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 2), Client(address) as client:
            futures = [client.submit(note_and_square, path, number) for number in range(20_000)]
            wait_until(futures[2_000].done)
            first.kill()
            assert not all(future.done() for future in futures)
            with start_scheduler(address):
                assert [future.result(timeout=60) for future in futures] == [n * n for n in range(20_000)]
            ran = functions.notes(path)
            assert set(ran) == {str(number) for number in range(20_000)}
            assert len(ran) == 20_000, f"{len(ran) - 20_000} tasks ran twice although their agent lived"
    finally:
        first.__exit__()


def test_three_restarts_in_a_row_during_a_map() -> None:
    address = free_address()
    scheduler = start_scheduler(address)
    results: list[list[int]] = []
    try:
        with start_cluster(address, "-n", 2), Client(address) as client:
            caller = threading.Thread(
                target=lambda: results.append(client.map(functions.spin_and_square, range(15_000))), daemon=True
            )
            caller.start()
            for _ in range(3):
                caller.join(1.0)
                scheduler.kill()
                scheduler.__exit__()
                scheduler = start_scheduler(address)
            caller.join(60)
            assert results == [[n * n for n in range(15_000)]]
    finally:
        scheduler.__exit__()


def test_an_agent_that_leaves_goes_on_leaving_under_the_next_scheduler(gate: Gate, tmp_path: Path) -> None:
    address, path = free_address(), str(tmp_path / "ran")
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 1, "-wn", "leaving") as leaving, Client(address) as client:
            large = client.submit(note_and_make, path, 300_000)
            wait([large], 30)
            running = client.submit(functions.wait_at_gate, *gate.paths, "value")
            wait_until(lambda: gate.waiting_pids)
            client.drain_workers("leaving")
            leaving.wait_for_output("drains this agent")
            first.kill()
            with start_scheduler(address), start_cluster(address, "-n", 1):
                gate.open()
                assert running.result(60) == "value"
                assert leaving.wait() == 0
                assert len(large.result(60)) == 300_000
            assert functions.notes(path) == ["300000"], "it was made once"
    finally:
        first.__exit__()


def test_a_running_task_goes_on_and_its_result_arrives(gate: Gate) -> None:
    with cluster_that_loses_its_scheduler() as (address, first, client):
        future = client.submit(functions.wait_at_gate, *gate.paths, "value")
        wait_until(lambda: gate.waiting_pids)
        first.kill()
        with start_scheduler(address):
            assert client.submit(functions.identity, "x").running()
            gate.open()
            assert future.result(timeout=60) == "value"
        assert len(gate.waiting_pids) == 1


def test_a_task_that_ends_while_the_scheduler_is_away(gate: Gate) -> None:
    with cluster_that_loses_its_scheduler() as (address, first, client):
        future = client.submit(functions.wait_at_gate, *gate.paths, "value")
        wait_until(lambda: gate.waiting_pids)
        first.kill()
        gate.open()
        assert not future.done()
        with start_scheduler(address):
            assert future.result(timeout=60) == "value"
        assert len(gate.waiting_pids) == 1


def test_submitting_while_the_scheduler_is_away() -> None:
    with cluster_that_loses_its_scheduler() as (address, first, client):
        assert client.submit(functions.square, 3).result(timeout=60) == 9
        first.kill()
        futures = [client.submit(functions.square, number) for number in range(100)]
        with start_scheduler(address):
            assert [future.result(timeout=60) for future in futures] == [n * n for n in range(100)]


def note_and_wait(path: str) -> None:
    functions.note(path, "begun")
    time.sleep(0.7)
    functions.note(path, "ended")


def test_a_cancel_that_a_stopped_scheduler_does_not_hear_survives_its_death(gate: Gate, tmp_path: Path) -> None:
    """The tasks are with their agent, one running, one next."""
    path = str(tmp_path / "ran")
    with cluster_that_loses_its_scheduler() as (address, first, client):
        running = client.submit(functions.wait_at_gate, *gate.paths, "value")
        queued = client.submit(note_and_wait, path)
        wait_until(lambda: gate.waiting_pids)
        assert "running or next to run" in client.explain(queued)
        first.signal(signal.SIGSTOP)
        assert queued.cancel()
        watch = Stopwatch()
        wait_until(lambda: watch.seconds > 1.5)  # from now on the agent starts nothing by itself
        gate.open()
        first.kill()
        with start_scheduler(address):
            assert running.result(timeout=60) == "value"
            assert client.submit(functions.square, 3).result(timeout=60) == 9
    assert "ended" not in functions.notes(path)


def test_a_cancel_survives_a_restart(gate: Gate, tmp_path: Path) -> None:
    address, path = free_address(), str(tmp_path / "ran")
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 1), Client(address) as client:
            running = client.submit(functions.wait_at_gate, *gate.paths, "value")
            wait_until(lambda: gate.waiting_pids)
            queued = client.submit(functions.note, path)
            first.kill()
            assert running.cancel() and queued.cancel()
            with start_scheduler(address):
                assert client.submit(functions.square, 3).result(timeout=60) == 9
            assert functions.notes(path) == []
    finally:
        first.__exit__()


def test_large_values_survive_a_restart(gate: Gate) -> None:
    value = b"x" * 3_000_000
    with cluster_that_loses_its_scheduler() as (address, first, client):
        done = client.submit(functions.identity, value)
        assert done.exception(timeout=60) is None
        running = client.submit(functions.wait_at_gate, *gate.paths, value)
        wait_until(lambda: gate.waiting_pids)
        queued = client.submit(functions.identity, value)
        first.kill()
        with start_scheduler(address):
            gate.open()
            assert running.result(timeout=60) == value
            assert queued.result(timeout=60) == value
            assert done.result(timeout=60) == value


def test_a_stopped_scheduler_that_wakes_up(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", 2), Client(address) as client:
        futures = [client.submit(functions.spin_and_square, number, 0.001) for number in range(2_000)]
        wait_until(lambda: sum(future.done() for future in futures) > 100)
        scheduler.signal(signal.SIGSTOP)
        watch = Stopwatch()
        wait_until(lambda: watch.seconds > 4)
        scheduler.signal(signal.SIGCONT)
        assert [future.result(timeout=60) for future in futures] == [n * n for n in range(2_000)]


def note_and_sleep(path: str, number: int) -> int:
    time.sleep(0.02)
    functions.note(path, str(number))
    return number


@pytest.mark.parametrize("attempt", range(3))
def test_no_task_runs_twice_because_the_scheduler_was_stopped(tmp_path: Path, attempt: int) -> None:
    """Its sockets hold the results of short tasks, and the signs of life of agents, when it goes on."""
    address, path = free_address(), str(tmp_path / "ran")
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", 2), Client(address) as client:
        client.map(functions.sleep_and_return, [0.02] * 10)
        futures = [client.submit(note_and_sleep, path, number) for number in range(150)]
        wait_until(futures[10 + 7 * attempt].done)
        scheduler.signal(signal.SIGSTOP)
        watch = Stopwatch()
        wait_until(lambda: watch.seconds > 4)
        scheduler.signal(signal.SIGCONT)
        assert [future.result(timeout=60) for future in futures] == list(range(150))
    assert sorted(functions.notes(path)) == sorted(str(number) for number in range(150))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_scheduler_that_stays_away_is_a_disconnected_error(number: signal.Signals) -> None:
    address = free_address()
    scheduler = start_scheduler(address)
    try:
        client = Client(address, timeout_seconds=2)
        try:
            future = client.submit(functions.square, 3)
            scheduler.signal(number)
            watch = Stopwatch()
            with pytest.raises(DisconnectedError):
                future.result(timeout=60)
            assert 1.0 < watch.seconds < 50
            with pytest.raises(TimeoutError):
                client.submit(functions.square, 3).result(timeout=20)
        finally:
            watch = Stopwatch()
            client.disconnect()
            assert watch.seconds < 20
    finally:
        scheduler.__exit__()


def test_nobody_listening_is_a_disconnected_error() -> None:
    watch = Stopwatch()
    with pytest.raises(DisconnectedError), Client(free_address(), timeout_seconds=1) as client:
        client.submit(functions.square, 3).result(timeout=60)
    assert watch.seconds < 50


def test_a_task_that_must_not_start_twice_does_not_start_again_when_its_agent_was_away(gate: Gate) -> None:
    """The agent is stopped before the scheduler is killed, and continues when the task has failed."""
    address = free_address()
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 1) as away, Client(address) as client:
            future = client.submit_verbose(functions.wait_at_gate, (*gate.paths, "value"), rerun=False)
            wait_until(lambda: gate.waiting_pids)
            away.signal(signal.SIGSTOP)
            first.kill()
            with start_scheduler(address), start_cluster(address, "-n", 1):
                with pytest.raises(WorkerDiedError, match="Look at what the task has done"):
                    future.result(timeout=60)
                away.signal(signal.SIGCONT)
                wait_until(lambda: client.n_workers == 2)
                assert client.submit(functions.square, 3).result(timeout=60) == 9
            assert len(gate.waiting_pids) == 1
    finally:
        first.__exit__()
