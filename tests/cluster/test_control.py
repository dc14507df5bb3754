"""Operators act on a running cluster: they pause and drain workers, and cancel tasks of others."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from scaler.utility.exceptions import ControlError
from scaler_protocol.address import parse_address
from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.operation import Operation
from scaler_protocol.monitor.operator import operate
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


@pytest.fixture
def operator(combo: SchedulerClusterCombo) -> Iterator[Client]:
    with Client(combo.get_address()) as connected:
        yield connected


def test_paused_workers_get_no_tasks_until_they_are_resumed(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-wn", "a"), Client(address) as client:
        client.submit(functions.square, 2).result(60)
        [worker] = client.cluster_info().workers
        assert client.pause_workers(worker.name) == [worker.agent]
        waiting = client.submit(functions.wait_at_gate, *gate.paths)
        assert "paused" in client.explain(waiting)
        with start_cluster(address, "-n", 1, "-wn", "b"):
            wait_until(lambda: gate.waiting_pids)
            assert gate.waiting_pids != [worker.pid]
            second = client.submit(functions.process_id)
            client.resume_workers(worker.name)
            assert second.result(60) == worker.pid
            gate.open()
            waiting.result(60)


def test_a_drained_agent_ends_after_its_running_task(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1) as leaving, Client(address) as client:
        running = client.submit(functions.wait_at_gate, *gate.paths)
        queued = client.submit(functions.process_id)
        wait_until(lambda: gate.waiting_pids)
        [worker] = client.cluster_info().workers
        assert client.drain_workers(worker.host) == [worker.agent]
        with start_cluster(address, "-n", 1):
            assert queued.result(60) != worker.pid
            gate.open()
            running.result(60)
            assert leaving.wait() == 0
            assert client.submit(functions.square, 3).result(60) == 9


def test_the_tasks_of_a_client_are_cancelled(client: Client, operator: Client, gate: Gate) -> None:
    futures = [client.submit(functions.wait_at_gate, *gate.paths) for _ in range(5)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    assert operator.cancel_tasks(client=client.identity.hex()[:8]) == 5
    user, here = pwd.getpwuid(os.getuid()).pw_name, re.escape(socket.gethostname())
    said = rf"^An operator has cancelled all tasks of this client: {user} on {here} \(pid {os.getpid()}\), with .*\.$"
    for future in futures:
        with pytest.raises(CancelledError, match=said):
            future.result(60)
    assert client.submit(functions.square, 3).result(60) == 9


def test_a_map_a_graph_and_an_awaited_task_say_who_has_cancelled_them(
    combo: SchedulerClusterCombo, client: Client, operator: Client, gate: Gate
) -> None:
    said = "^An operator has cancelled all tasks of function wait_at_gate: "

    def cancel_all(count: int) -> None:
        wait_until(lambda: sum(operator.cluster_info().unfinished) == count)
        assert operator.cancel_tasks(function="wait_at_gate") == count

    async def await_one() -> None:
        async with AsyncClient(combo.get_address()) as connected:
            future = connected.submit(functions.wait_at_gate, *gate.paths)
            await asyncio.to_thread(cancel_all, 1)
            with pytest.raises(asyncio.CancelledError, match=said):
                await future

    asyncio.run(await_one())
    wait_until(lambda: not sum(operator.cluster_info().unfinished))
    graph = {"path": gate.paths[0], "gate": gate.paths[1], "a": (functions.wait_at_gate, "path", "gate")}
    targets = client.get(graph, ["a"], block=False)
    with ThreadPoolExecutor(1) as pool:
        cancelling = pool.submit(cancel_all, 6)
        with pytest.raises(CancelledError, match=said):
            client.starmap(functions.wait_at_gate, [gate.paths] * 5)
        cancelling.result(60)
    with pytest.raises(CancelledError, match=said):
        targets["a"].result(60)


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
            each.result(60)
    assert other.result(60) == 16


def test_what_does_not_exist_is_a_clear_error(client: Client) -> None:
    with pytest.raises(ControlError, match="Cannot pause 'nowhere': no agent, worker or host has this name"):
        client.pause_workers("nowhere")
    with pytest.raises(ControlError, match="no client has an id that begins so"):
        client.cancel_tasks(client="ffffffffffffffff")
    with pytest.raises(TypeError, match="either client or function"):
        client.cancel_tasks()


LONG = "\N{LATIN SMALL LETTER E WITH ACUTE}" * 40_000
"""More bytes than a message may contain."""


@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.set_weight(1e300, group="default"),
        lambda client: client.set_weight(float("nan"), group="default"),
        lambda client: client.set_limit(10**400, group="default"),
        lambda client: client.pause_workers("\ud800"),
        lambda client: client.pause_workers(LONG),
        lambda client: client.cancel_tasks(function=LONG),
        lambda client: client.stack("\ud800"),
        lambda client: client.output(LONG),
    ],
)
def test_what_no_message_may_contain_is_refused_and_the_client_goes_on(
    client: Client, act: Callable[[Client], object]
) -> None:
    with pytest.raises(ControlError) as caught:
        act(client)
    assert str(caught.value).startswith("Cannot ") and len(str(caught.value)) < 200
    assert client.submit(functions.square, 3).result(60) == 9


def test_a_monitor_says_what_no_message_may_contain(combo: SchedulerClusterCombo) -> None:
    for operation in (
        Operation(ControlAction.SET_GROUP_WEIGHT, "default", 1e300),
        Operation(ControlAction.PAUSE, "\ud800"),
    ):
        outcome = operate(parse_address(combo.get_address()), operation, "scaler-scheduler", "scaler_top")
        assert not outcome.is_done and outcome.text.startswith("Cannot do this: ")


def test_a_refusal_shows_the_beginning_of_a_long_name(client: Client) -> None:
    with pytest.raises(ControlError, match=r"^Cannot pause 'x{59}…': no agent, worker or host has this name"):
        client.pause_workers("x" * 10_000)


def test_a_worker_process_is_killed_and_its_task_runs_again(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        running = client.submit(functions.wait_at_gate, *gate.paths)
        wait_until(lambda: gate.waiting_pids)
        [worker] = client.cluster_info().workers
        client.kill_worker(worker.name)
        wait_until(lambda: gate.waiting_pids and gate.waiting_pids != [worker.pid])
        gate.open()
        running.result(60)
        client.restart_worker(worker.name)
        wait_until(lambda: client.submit(functions.process_id).result(60) not in (worker.pid, *gate.waiting_pids))


def test_weights_limits_and_priorities_are_changed(combo: SchedulerClusterCombo, operator: Client, gate: Gate) -> None:
    with Client(combo.get_address(), group="nightly") as other:
        futures = [other.submit(functions.wait_at_gate, *gate.paths) for _ in range(6)]
        wait_until(lambda: len(gate.waiting_pids) == 2)
        [row] = [each for each in operator.cluster_info().clients if each.group == "nightly"]
        name = row.session.hex()[:8]
        operator.set_weight(3, client=name)
        operator.set_weight(0.5, group="nightly")
        operator.set_limit(1, group="nightly")
        assert operator.set_priority(7, client=name) == operator.set_priority(7, function="wait_at_gate") > 0
        wait_until(lambda: [each.weight for each in operator.cluster_info().clients if each.group == "nightly"] == [3])
        task = futures[-1].task_id
        assert operator.cancel_tasks(client=name, task=task) == 1
        with pytest.raises(CancelledError):
            futures[-1].result(60)
        gate.open()
        for future in futures[:-1]:
            future.result(60)
    wait_until(lambda: all(each.group != "nightly" for each in operator.cluster_info().clients))
    with pytest.raises(ControlError, match="no client is in a group"):
        operator.set_limit(1, group="nightly")


def test_actions_are_written_to_the_audit_log(tmp_path: Path) -> None:
    address, path = free_address(), tmp_path / "audit.jsonl"
    with start_scheduler(address, "--audit-log", path), start_cluster(address, "-n", 1), Client(address) as client:
        wait_until(lambda: client.cluster_info().agents)
        [agent] = client.cluster_info().agents
        client.pause_workers(agent.name)
        with pytest.raises(ControlError):
            client.pause_workers("nothing")
        client.set_limit(3, group="default")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    user = pwd.getpwuid(os.getuid()).pw_name
    assert [(each["user"], each["action"], each["target"], each["value"]) for each in lines] == [
        (user, "pause", agent.name, 0.0),
        (user, "set group limit", "default", 3.0),
    ]
    assert lines[0]["pid"] == os.getpid() and path.stat().st_mode & 0o777 == 0o600
