"""Clients used inside tasks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Any

import cloudpickle
import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo, Serializer
from scaler.shell.client_io import _instances
from scaler.utility.exceptions import ClientQuitException, MissingObjects, TaskMemoryError, TaskTimeoutError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import child_environment
from tests.support.nested import depth, fibonacci, fibonacci_without_argument
from tests.support.waiting import wait_until


def test_recursion_with_one_worker(single_client: Client) -> None:
    assert single_client.submit(fibonacci, single_client, 7).result(timeout=50) == 13


def test_recursion_without_an_argument(single_client: Client) -> None:
    assert single_client.submit(fibonacci_without_argument, 5).result(timeout=50) == 5


def test_several_recursions_at_once(client: Client) -> None:
    futures = [client.submit(fibonacci, client, 5) for _ in range(4)]
    assert [future.result(timeout=50) for future in futures] == [5] * 4


def test_ten_levels_deep(single_client: Client) -> None:
    assert single_client.submit(depth, single_client, 10).result(timeout=50) == 10


def test_a_queue_of_one_does_not_deadlock() -> None:
    with SchedulerClusterCombo(1, per_worker_queue_size=1) as combo, Client(combo.get_address()) as client:
        futures = [client.submit(fibonacci, client, 4) for _ in range(3)]
        assert [future.result(timeout=50) for future in futures] == [3] * 3


@pytest.mark.parametrize("limit", [0, 5, 50])
def test_a_bounded_queue_does_not_deadlock(limit: int) -> None:
    """Every worker runs a task that waits for tasks of its own, while the queue is full of others like it."""

    def parent(client: Client, number: int) -> int:
        return sum(client.map(functions.square, range(number % 5 + 1)))

    with SchedulerClusterCombo(2, max_number_of_tasks_waiting=limit) as combo, Client(combo.get_address()) as client:
        futures = [client.submit(parent, client, number) for number in range(200)]
        expected = [sum(each**2 for each in range(number % 5 + 1)) for number in range(200)]
        assert [future.result(timeout=50) for future in futures] == expected


@pytest.mark.parametrize("way", ["map", "imap", "wait", "as_completed", "exception", "await", "get_polling"])
def test_every_way_of_waiting_lends_the_slot(single_client: Client, way: str) -> None:
    def parent(client: Client) -> int:
        if way == "map":
            return sum(client.map(functions.square, range(4)))
        if way == "imap":
            return sum(client.imap(functions.square, range(4)))
        futures = [client.submit(functions.square, number) for number in range(4)]
        if way == "wait":
            concurrent.futures.wait(futures)
        elif way == "as_completed":
            return sum(future.result() for future in concurrent.futures.as_completed(futures))
        elif way == "exception":
            assert [future.exception() for future in futures] == [None] * 4
        elif way == "await":
            import asyncio

            async def main() -> int:
                return sum([await future for future in futures])

            return asyncio.run(main())
        elif way == "get_polling":
            while True:
                try:
                    return sum(future.result(timeout=0.5) for future in futures)
                except TimeoutError:
                    pass
        return sum(future.result() for future in futures)

    assert single_client.submit(parent, single_client).result(timeout=60) == 14


def test_threads_of_a_task_may_wait(single_client: Client) -> None:
    def parent(client: Client) -> list[int]:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda number: client.submit(functions.square, number).result(), range(3)))

    assert single_client.submit(parent, single_client).result(timeout=60) == [0, 1, 4]


def test_a_subprocess_of_a_task_reaches_the_same_scheduler(single_client: Client) -> None:
    def parent(executable: str, environment: dict[str, str]) -> str:
        source = "import math; from scaler import Client; print(Client().submit(math.sqrt, 16).result(timeout=60))"
        inherited = {**environment, **{key: value for key, value in os.environ.items() if "SCALER" in key}}
        done = subprocess.run([executable, "-c", source], capture_output=True, text=True, env=inherited, timeout=30)
        return done.stdout.strip() or done.stderr

    # A subprocess that waits for a child task occupies its parent's slot like any other wait of that task.
    assert single_client.submit(parent, sys.executable, child_environment()).result(timeout=40) == "4.0"


def test_client_without_address_outside_a_task_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="address"):
        Client()


class MarkedSerializer(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return b"M" + cloudpickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert payload[:1] == b"M"
        return pickle.loads(payload[1:])


def test_a_passed_client_keeps_its_serializer(single_combo: SchedulerClusterCombo) -> None:
    def parent(client: Client) -> int:
        return client.submit(functions.square, 3).result()

    with Client(single_combo.get_address(), serializer=MarkedSerializer()) as client:
        assert client.submit(parent, client).result(timeout=60) == 9


def test_exceptions_of_children_pass_through(single_client: Client) -> None:
    def parent(client: Client) -> None:
        client.submit(functions.raise_value_error, "from the child").result()

    with pytest.raises(ValueError, match="from the child"):
        single_client.submit(parent, single_client).result(timeout=60)


def test_large_values_of_children(single_client: Client) -> None:
    def parent(client: Client) -> int:
        return len(client.submit(functions.identity, b"x" * 2_000_000).result())

    assert single_client.submit(parent, single_client).result(timeout=60) == 2_000_000


def test_children_of_a_cancelled_parent_are_cancelled(client: Client, gate: Gate) -> None:
    def parent(nested: Client, started: str, gate_path: str) -> None:
        nested.submit(functions.wait_at_gate, started, gate_path).result()

    future = client.submit(parent, client, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel()
    gates = [client.submit(functions.identity, number) for number in range(4)]
    assert [other.result(timeout=60) for other in gates] == list(range(4))
    probe = str(gate.started) + "-probe"
    busy = [client.submit(functions.wait_at_gate, probe, str(gate.gate)) for _ in range(2)]
    wait_until(lambda: len(functions.notes(probe)) == 2, what="both slots are free again")
    gate.open()
    [future.result(timeout=60) for future in busy]


def test_children_nobody_waited_for_go_on(client: Client, gate: Gate) -> None:
    def parent(nested: Client, path: str) -> str:
        for number in range(5):
            nested.submit(functions.note, path, str(number))
        return "parent ended"

    assert client.submit(parent, client, str(gate.started)).result(timeout=60) == "parent ended"
    wait_until(lambda: sorted(functions.notes(gate.started)) == list("01234"), what="children ran")


def test_a_dead_parent_is_run_again_with_new_children(client: Client, gate: Gate) -> None:
    def parent(nested: Client, path: str) -> int:
        child = nested.submit(functions.square, 3)
        return functions.exit_process_at_first(path, child.result())

    assert client.submit(parent, client, str(gate.started)).result(timeout=60) == 9


def test_the_task_runs_in_the_main_thread(client: Client) -> None:
    def is_main() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert client.submit(is_main).result() is True


def test_processes_stay_bounded_while_parents_wait(single_client: Client) -> None:
    def pids(client: Client, levels: int) -> set[int]:
        if levels == 0:
            return {os.getpid()}
        return {os.getpid()}.union(*client.map(pids, [client] * 3, [levels - 1] * 3))

    assert len(single_client.submit(pids, single_client, 3).result(timeout=40)) <= 8


def test_a_client_in_a_subprocess_of_a_thread_of_a_task(single_client: Client) -> None:
    def parent(environment: dict[str, str], executable: str) -> int:
        source = "from scaler import Client; print(Client().submit(pow, 2, 5).result(timeout=60))"
        inherited = {**environment, **{key: value for key, value in os.environ.items() if "SCALER" in key}}

        def run() -> str:
            return subprocess.run([executable, "-c", source], capture_output=True, text=True, env=inherited).stdout

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return int(pool.submit(run).result())

    assert single_client.submit(parent, child_environment(), sys.executable).result(timeout=40) == 32


def test_children_of_a_finished_parent_can_be_outlived_by_their_own_children(client: Client, gate: Gate) -> None:
    """What a finished parent did not wait for goes on, and so does what that submits."""

    def child(path: str) -> None:
        with Client() as own:
            own.submit(functions.note, path, "grandchild").result()

    def parent(nested: Client, path: str) -> None:
        nested.submit(child, path)

    client.submit(parent, client, str(gate.started)).result(timeout=60)
    wait_until(lambda: functions.notes(gate.started) == ["grandchild"])


def assert_both_slots_are_free(client: Client, gate: Gate) -> None:
    probe = str(gate.started) + "-probe"
    busy = [client.submit(functions.wait_at_gate, probe, str(gate.gate)) for _ in range(2)]
    wait_until(lambda: len(functions.notes(probe)) == 2, what="both slots are free again")
    gate.open()
    [other.result(timeout=60) for other in busy]


def test_children_of_a_timed_out_parent_are_cancelled(client: Client, gate: Gate) -> None:
    def parent(nested: Client, started: str, gate_path: str) -> None:
        nested.submit(functions.wait_at_gate, started, gate_path).result()

    future = client.submit_verbose(parent, (client, *gate.paths), timeout_seconds=2)
    wait_until(lambda: gate.waiting_pids)
    with pytest.raises(TaskTimeoutError):
        future.result(timeout=60)
    assert_both_slots_are_free(client, gate)


def test_children_of_a_parent_over_its_memory_are_cancelled(client: Client, gate: Gate) -> None:
    def parent(nested: Client, started: str, gate_path: str) -> None:
        nested.submit(functions.wait_at_gate, started, gate_path)
        wait_until(lambda: functions.notes(started))
        hoard = bytearray(600_000_000)
        hoard[::4096] = bytes(len(hoard[::4096]))
        time.sleep(30)

    future = client.submit_verbose(parent, (client, *gate.paths), memory_bytes=300_000_000)
    with pytest.raises(TaskMemoryError):
        future.result(timeout=60)
    assert_both_slots_are_free(client, gate)


def test_children_of_a_parent_that_raises_go_on(client: Client, gate: Gate) -> None:
    def parent(nested: Client, path: str) -> None:
        nested.submit(functions.note, path, "child")
        raise ValueError("parent")

    with pytest.raises(ValueError, match="parent"):
        client.submit(parent, client, str(gate.started)).result(timeout=60)
    wait_until(lambda: functions.notes(gate.started) == ["child"])


def test_a_client_that_is_only_an_argument_does_not_connect() -> None:
    def threads(client: Client) -> list[str]:
        return [thread.name for thread in threading.enumerate()]

    with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
        assert client.submit(threads, client).result(timeout=60) == ["MainThread"]


def test_tasks_of_one_worker_process_share_a_session(single_client: Client) -> None:
    def session(client: Client) -> tuple[int, bytes]:
        assert client.submit(functions.square, 3).result() == 9
        return os.getpid(), client.identity

    sessions = [single_client.submit(session, single_client).result(timeout=60) for _ in range(6)]
    assert len(set(sessions)) < 6


def test_a_session_is_passed_on_after_large_values_too() -> None:
    def session(client: Client) -> tuple[int, bytes]:
        assert len(client.submit(functions.identity, b"x" * 200_000).result()) == 200_000
        return os.getpid(), client.identity

    with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
        sessions = [client.submit(session, client).result(timeout=60) for _ in range(6)]
    assert len(set(sessions)) < 6


def test_a_session_that_no_task_needs_any_more_ends() -> None:
    def use(client: Client) -> int:
        from scaler.shell import client_io

        client_io._REST_SECONDS = 0.1
        return client.submit(functions.square, 3).result()

    def look() -> tuple[list[str], int]:
        from scaler.client import client_pool

        return [thread.name for thread in threading.enumerate()], sum(map(len, client_pool._pool.values()))

    with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
        assert client.submit(use, client).result(timeout=60) == 9
        wait_until(lambda: client.submit(look).result(timeout=60) == (["MainThread"], 0))


def test_a_client_that_is_done_with_does_not_speak_for_the_next(single_client: Client) -> None:
    def parent(client: Client) -> list[str]:
        said = []
        reference = client.send_object([1])
        client.disconnect()
        for use in (lambda: client.submit(functions.square, 3), lambda: client.map(functions.square, [reference])):
            try:
                use()
            except ClientQuitException as error:
                said.append(str(error))
        with Client() as other:
            future = other.submit(functions.square, 3)
            said.append(str(future.result()))
        with Client() as third:
            try:
                third.submit(functions.identity, reference)
            except MissingObjects:
                said.append("missing")
        return [*said, str(future.result())]

    stopped = "client is already stopped."
    expected = [stopped, stopped, "9", "missing", "9"]
    assert single_client.submit(parent, single_client).result(timeout=60) == expected


def test_children_of_a_later_task_of_the_same_worker_process_are_cancelled_with_it(
    single_client: Client, gate: Gate
) -> None:
    def first(client: Client) -> int:
        return client.submit(functions.square, 3).result()

    def second(client: Client, started: str, gate_path: str) -> None:
        client.submit(functions.wait_at_gate, started, gate_path).result()

    assert single_client.submit(first, single_client).result(timeout=60) == 9
    future = single_client.submit(second, single_client, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel()
    assert single_client.submit(first, single_client).result(timeout=60) == 9  # its only slot is free again
    assert not gate.gate.exists()


def test_cancelled_children_do_not_come_back(single_client: Client, gate: Gate) -> None:
    """Nor when their client is still there, which then has nothing left to say again."""

    def parent(nested: Client, path: str, started: str, gate_path: str) -> None:
        vars(functions).setdefault("kept", []).append(nested)
        futures = [nested.submit(functions.wait_at_gate, started, gate_path), nested.submit(functions.note, path, "x")]
        vars(functions)["kept"].extend(futures)
        futures[0].result()

    def ends(path: str) -> list[bool]:
        return [future.cancelled() for future in vars(functions).get("kept", [])[1:]]

    path = str(gate.started) + "-notes"
    future = single_client.submit(parent, single_client, path, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel()
    wait_until(lambda: all(single_client.submit(ends, path).result(timeout=60)))
    assert functions.notes(path) == []


def test_a_client_kept_by_a_module_is_as_deep_as_the_task_that_uses_it(single_client: Client) -> None:
    def parent(levels: int) -> int:
        client = vars(functions).setdefault("kept_client", None) or Client()
        vars(functions)["kept_client"] = client
        return 0 if levels == 0 else 1 + client.submit(parent, levels - 1).result()

    assert single_client.submit(parent, 0).result(timeout=60) == 0
    assert [single_client.submit(parent, levels).result(timeout=60) for levels in (1, 3, 2)] == [1, 3, 2]


def cut_connections() -> None:
    """Those of the clients of this process."""
    for client_io in list(_instances):
        client_io._connection._stream.plain_socket.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]


def double_after(seconds: float, number: int) -> int:
    time.sleep(seconds)
    return 2 * number


@pytest.mark.parametrize("cuts", [1, 5])
def test_a_client_whose_connection_is_cut_while_it_waits_connects_again(single_client: Client, cuts: int) -> None:
    """A single worker: the client says again that it waits, or its children would not run."""

    def parent(cuts: int) -> list[int]:
        with Client() as inner:
            futures = [inner.submit(double_after, 0.1, number) for number in range(10)]
            futures[0].result()

            def cut() -> None:
                for _ in range(cuts):
                    cut_connections()
                    time.sleep(0.15)

            thread = threading.Thread(target=cut)
            thread.start()
            results = [future.result() for future in futures]
            thread.join()
            return results + inner.map(functions.square, range(3))

    assert single_client.submit(parent, cuts).result(timeout=50) == [*range(0, 20, 2), 0, 1, 4]


def test_a_cut_connection_keeps_locks_and_large_values(client: Client) -> None:
    def parent() -> tuple[bool, int]:
        with Client() as inner, inner.lock("of a cut client"):
            cut_connections()
            held = inner.lock("of a cut client").locked()
            return held, len(inner.submit(bytes, 3_000_000).result())

    assert client.submit(parent).result(timeout=50) == (True, 3_000_000)


def test_a_cut_connection_of_an_async_client_comes_back(client: Client) -> None:
    async def wait() -> list[int]:
        async with AsyncClient() as inner:
            first = await asyncio.gather(*map(partial(inner.submit, functions.square), range(3)))
            cut_connections()
            return [*first, *await asyncio.gather(*map(partial(inner.submit, functions.square), range(3)))]

    def parent() -> list[int]:
        return asyncio.run(wait())

    assert client.submit(parent).result(timeout=50) == [0, 1, 4, 0, 1, 4]
