"""``scaler_worker_manager local``: workers that a manager keeps running on this host."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scaler import Client, LocalCluster
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import (
    Command,
    alive,
    child_environment,
    command_line,
    descendants,
    run_command,
    start_scheduler,
)
from tests.support.ports import free_address
from tests.support.waiting import wait_until


@pytest.fixture
def address() -> Iterator[str]:
    found = free_address()
    with start_scheduler(found, "--protected=False"):
        yield found


def manager(address: str, *flags: object, **environment: str) -> Command:
    return Command(command_line("scaler_worker_manager", "local", address, *flags), child_environment(**environment))


def agents(command: Command) -> list[int]:
    """The process ids of the manager's jobs."""
    return [each.pid for each in descendants(command.pid) if parent_of(each) == command.pid]


def parent_of(process: psutil.Process) -> int | None:
    """None: it has ended meanwhile."""
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return None


def test_tasks_run_on_workers_with_the_options_of_the_manager(address: str) -> None:
    with manager(address, "-n", 2, "--per-worker-capabilities", "blue") as command, Client(address) as client:
        assert client.submit_verbose(pow, (2, 5), {}, capabilities={"blue": 1}).result() == 32
        assert len(agents(command)) == 1
        assert command.terminate() == 0


def test_the_scheduler_tells_whether_a_manager_has_left_or_is_lost() -> None:
    address = free_address()
    with start_scheduler(address) as scheduler:
        with manager(address, "-n", 1, "--name=night") as command:
            scheduler.wait_for_output("Worker manager night joined")
            assert command.terminate() == 0
        scheduler.wait_for_output("Worker manager night left")
        with manager(address, "-n", 1, "--name=day") as command:
            scheduler.wait_for_output("Worker manager day joined")
            command.kill()
        scheduler.wait_for_output("Worker manager day is lost")
        assert "Worker manager night is lost" not in scheduler.output


def test_a_killed_job_is_replaced_and_the_reason_is_logged(address: str) -> None:
    with manager(address, "-n", 1) as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        (killed,) = agents(command)
        os.kill(killed, signal.SIGKILL)
        assert client.submit(abs, -2).result() == 2
        assert agents(command) != [killed]
        command.wait_for_output(f"1 worker is missing: Job {killed} was ended by signal 9. The next attempt is in 1 s.")
        assert command.terminate() == 0


def test_a_stopped_manager_leaves_nothing(address: str) -> None:
    with manager(address, "-n", 2) as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        family = [each.pid for each in command.family()]
        assert command.terminate() == 0
        wait_until(lambda: not any(map(alive, family)))


def test_a_killed_manager_leaves_nothing(address: str) -> None:
    with manager(address, "-n", 2) as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        family = [each.pid for each in command.family()]
        command.kill()
        wait_until(lambda: not any(map(alive, family)))


def test_the_manager_ends_with_its_scheduler(address: str) -> None:
    with manager(address, "-n", 1) as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        client.shutdown()
        assert command.wait() == 0


def test_two_managers_of_one_name(address: str) -> None:
    with manager(address, "-n", 1, "--name", "night") as first, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        with manager(address, "--name", "night") as second:
            assert second.wait() == 2
            assert second.output.endswith(
                "scaler_worker_manager: Cannot start the manager night: another one of this name runs. "
                "Stop it, or give another --name.\n"
            )
        first.kill()
        with manager(address, "-n", 1, "--name", "night") as third:
            assert client.submit(abs, -2).result() == 2
            assert third.terminate() == 0


def test_a_file_gives_the_options(address: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[manager]\nnum-of-workers = 1\nper-worker-capabilities = ["blue"]\n')
    with manager(address, "--config", file) as command, Client(address) as client:
        assert client.submit_verbose(pow, (2, 5), {}, capabilities={"blue": 1}).result() == 32
        assert command.terminate() == 0


def test_the_class_starts_a_scheduler_and_workers() -> None:
    with LocalCluster(1, per_worker_capabilities={"blue": 1}) as cluster, Client(cluster.get_address()) as client:
        assert client.submit_verbose(pow, (2, 5), {}, capabilities={"blue": 1}).result() == 32


def test_the_class_joins_a_scheduler_and_reserves_a_name(address: str) -> None:
    with LocalCluster(1, address, name="night") as cluster, Client(cluster.get_address()) as client:
        assert client.submit(abs, -1).result() == 1
        with pytest.raises(ValueError, match="another one of this name runs"):
            LocalCluster(1, address, name="night")


# ---- following the load ----------------------------------------------------------------------------------------------

SCALING = ("--maximum-workers", 3, "--target-seconds", 1, "--cool-down-seconds", 0.1)


def test_workers_follow_the_load_from_none_to_the_maximum_and_back(address: str) -> None:
    with manager(address, *SCALING) as command, Client(address) as client:
        command.wait_for_output("logging to")
        assert agents(command) == []
        futures = [client.submit(time.sleep, 0.05) for _ in range(200)]
        wait_until(lambda: len(agents(command)) == 3)
        for future in futures:
            future.result()
        wait_until(lambda: agents(command) == [])
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_a_restarted_scheduler_and_a_killed_one_leave_the_manager_running() -> None:
    address = free_address()
    scheduler = start_scheduler(address)
    with manager(address, *SCALING, "--minimum-workers", 1) as command:
        with scheduler, Client(address) as client:
            assert client.submit(abs, -1).result() == 1
            scheduler.kill()
        with start_scheduler(address), Client(address) as client:
            futures = [client.submit(time.sleep, 0.5) for _ in range(8)]
            wait_until(lambda: len(agents(command)) == 3)
            for future in futures:
                future.result()
        assert command.terminate() == 0


def test_a_second_manager_of_the_same_kind_and_host_is_refused_by_the_scheduler(address: str) -> None:
    with manager(address, *SCALING) as first, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        with manager(address, *SCALING) as second:
            assert second.wait() == 2
            assert "Give this one another --name, or stop the other one." in second.output
        assert client.submit(abs, -2).result() == 2
        assert first.terminate() == 0


def test_a_manager_replaces_one_that_the_scheduler_still_believes_to_be_connected(address: str) -> None:
    """As after the loss of its host: it says no more, and its connection stays open."""
    flags = (*SCALING, "--minimum-workers=1")
    with manager(address, *flags) as first, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        first.signal(signal.SIGSTOP)
        with manager(address, *flags) as second:
            wait_until(lambda: agents(second))
            first.signal(signal.SIGKILL)
            assert client.submit(abs, -2).result() == 2
            assert second.terminate() == 0


def test_no_workers_are_no_problem_while_a_manager_follows_the_load(address: str) -> None:
    assert "No workers are connected" in run_command("scaler", "status", address).stdout
    with manager(address, *SCALING, "--name=night") as command, Client(address) as client:
        wait_until(lambda: any("night" in each.name for each in client.cluster_info().snapshot.settings))
        shown = run_command("scaler", "status", address).stdout
        assert "night: 0 running, 0 starting, 0 wanted" in shown and "No workers are connected" not in shown
        assert command.terminate() == 0


def test_the_python_class_follows_the_load() -> None:
    with LocalCluster(maximum_workers=2) as cluster, Client(cluster.get_address()) as client:
        assert client.map(abs, [-1, -2]) == [1, 2]


def block(number: int, started: str, gate: str) -> bytes:
    functions.wait_at_gate(started, gate)
    return bytes([number]) * 200_000


def total(values: list[bytes]) -> int:
    return sum(value[0] for value in values)


def test_results_of_workers_that_scaling_removes_stay_readable(address: str, gate: Gate) -> None:
    flags = (*SCALING, "--minimum-workers", 1)
    with manager(address, *flags) as command, Client(address) as client:
        sent = client.send_object(bytes(300_000))
        futures = [client.submit(block, number, *gate.paths) for number in range(9)]
        values = [client.submit(block, number, *gate.paths) for number in range(3)]
        wait_until(lambda: len(set(gate.waiting_pids)) == 3)
        gate.open()
        wait_until(lambda: all(each.done() for each in (*futures, *values)))
        wait_until(lambda: len(agents(command)) == 1)
        assert client.submit(total, values).result() == 3
        assert client.submit(len, sent).result() == 300_000
        assert [future.result()[:1] for future in futures] == [bytes([number]) for number in range(9)]
        assert command.terminate() == 0


def test_the_last_worker_stays_until_its_results_are_read(address: str, gate: Gate) -> None:
    with manager(address, *SCALING) as command, Client(address) as client:
        futures = [client.submit(block, number, *gate.paths) for number in range(9)]
        wait_until(lambda: len(set(gate.waiting_pids)) == 3)
        gate.open()
        wait_until(lambda: all(each.done() for each in futures))
        wait_until(lambda: len(agents(command)) == 1)
        wait_until(lambda: any(" 0 wanted" in each.value for each in client.cluster_info().snapshot.settings))
        assert len(agents(command)) == 1
        assert [future.result()[:1] for future in futures] == [bytes([number]) for number in range(9)]
        futures.clear()
        wait_until(lambda: agents(command) == [])
        assert command.terminate() == 0
