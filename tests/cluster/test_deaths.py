"""Worker processes and agents that die, stop or hang: every future is right all the same."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ProcessorDiedError, ScalerError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Command, Stopwatch, alive, kill_quietly, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


@pytest.fixture
def scheduler_address() -> Iterator[str]:
    address = free_address()
    with start_scheduler(address):
        yield address


def wait_and_note(path: str, gate_started: str, gate_path: str, value: int) -> int:
    functions.note(path, str(value))
    return functions.wait_at_gate(gate_started, gate_path, value)


# ---- worker processes ------------------------------------------------------------------------------------------------


def test_killed_worker_process_loses_nothing(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths, "value")
    wait_until(lambda: gate.waiting_pids)
    watch = Stopwatch()
    os.kill(gate.waiting_pids[0], signal.SIGKILL)
    wait_until(lambda: len(gate.waiting_pids) == 2, what="the task runs again")
    assert watch.seconds < 20
    gate.open()
    assert future.result(timeout=60) == "value"
    assert len(set(gate.waiting_pids)) == 2


def test_a_task_that_ends_its_process_once_succeeds(client: Client, tmp_path: Path) -> None:
    assert client.submit(functions.exit_process_at_first, str(tmp_path / "calls"), 5).result(timeout=60) == 5


def test_three_deaths_are_an_error_that_names_each(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    with pytest.raises(ProcessorDiedError) as caught:
        client.submit(functions.exit_process, path, 37).result(timeout=60)
    pids = functions.notes(path)
    assert len(pids) == 3
    text = str(caught.value)
    assert all(pid in text for pid in pids), text
    assert text.count("37") >= 3, text
    assert isinstance(caught.value, ScalerError)
    assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_deaths_by_signal_name_the_signal(client: Client) -> None:
    def crash() -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(ProcessorDiedError, match="SIGSEGV|signal 11"):
        client.submit(crash).result(timeout=60)


def test_neighbours_of_a_deadly_task_are_unharmed(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    before = [client.submit(functions.square, number) for number in range(500)]
    deadly = client.submit(functions.exit_process, path)
    after = [client.submit(functions.square, number) for number in range(500)]
    assert [future.result(timeout=60) for future in before + after] == 2 * [n * n for n in range(500)]
    assert isinstance(deadly.exception(timeout=60), ProcessorDiedError)


def test_python_stack_is_in_the_certificate(client: Client) -> None:
    def a_function_with_a_telling_name() -> None:
        import ctypes

        ctypes.string_at(0)

    with pytest.raises(ProcessorDiedError) as caught:
        client.submit(a_function_with_a_telling_name).result(timeout=60)
    certificates = getattr(caught.value, "certificates", None)
    assert certificates is not None and len(certificates) == 3
    assert "a_function_with_a_telling_name" in str([vars(c) if hasattr(c, "__dict__") else c for c in certificates])


def test_stopped_worker_process_does_not_stop_the_others(client: Client, gate: Gate) -> None:
    stopped = client.submit(functions.wait_at_gate, *gate.paths, "value")
    wait_until(lambda: gate.waiting_pids)
    os.kill(gate.waiting_pids[0], signal.SIGSTOP)
    try:
        assert client.map(functions.square, range(1000)) == [n * n for n in range(1000)]
        assert not stopped.done()
    finally:
        os.kill(gate.waiting_pids[0], signal.SIGCONT)
    gate.open()
    assert stopped.result(timeout=60) == "value"


def test_the_worker_process_ends_between_tasks(client: Client) -> None:
    """A death that no running task caused costs nobody anything."""
    for _ in range(5):
        os.kill(client.submit(functions.process_id).result(timeout=60), signal.SIGKILL)
        assert client.map(functions.square, range(50)) == [n * n for n in range(50)]


def test_processes_that_a_task_started_do_not_hold_a_dead_worker_process_open(client: Client, gate: Gate) -> None:
    """A child that inherits the worker process's descriptors must not hide its death."""

    def start_child_and_die(path: str) -> str:
        import subprocess

        if functions.notes(path):
            return "second"
        child = subprocess.Popen(["sleep", "20"], close_fds=False)
        functions.note(path, str(child.pid))
        os._exit(1)

    watch = Stopwatch()
    assert client.submit(start_child_and_die, str(gate.started)).result(timeout=60) == "second"
    assert watch.seconds < 15
    for pid in gate.waiting_pids:
        kill_quietly(psutil.Process(pid)) if psutil.pid_exists(pid) else None


# ---- agents ----------------------------------------------------------------------------------------------------


def test_killed_agent_of_two(scheduler_address: str, gate: Gate) -> None:
    with start_cluster(scheduler_address, "-n", 1) as first, start_cluster(scheduler_address, "-n", 1):
        with Client(scheduler_address) as client:
            futures = [client.submit(functions.wait_at_gate, *gate.paths, n) for n in range(6)]
            wait_until(lambda: len(set(gate.waiting_pids)) == 2)
            children = first.family()
            watch = Stopwatch()
            first.kill()
            gate.open()
            assert [future.result(timeout=60) for future in futures] == list(range(6))
            assert watch.seconds < 4
            wait_until(lambda: not any(alive(child.pid) for child in children), what="processes died with their agent")


def test_killed_agent_then_another_joins(scheduler_address: str, gate: Gate) -> None:
    with Client(scheduler_address) as client:
        with start_cluster(scheduler_address, "-n", 2) as first:
            futures = [client.submit(functions.wait_at_gate, *gate.paths, n) for n in range(4)]
            wait_until(lambda: len(gate.waiting_pids) == 2)
            first.kill()
        gate.open()
        with start_cluster(scheduler_address, "-n", 1):
            assert [future.result(timeout=60) for future in futures] == list(range(4))


def test_a_lost_agent_costs_no_budget(scheduler_address: str, gate: Gate) -> None:
    with Client(scheduler_address) as client:
        future = client.submit(functions.wait_at_gate, *gate.paths, "value")
        for round_number in range(4):
            with start_cluster(scheduler_address, "-n", 1) as cluster:
                wait_until(lambda: len(gate.waiting_pids) == round_number + 1)  # noqa: B023
                cluster.kill()
        gate.open()
        with start_cluster(scheduler_address, "-n", 1):
            assert future.result(timeout=60) == "value"


def test_queued_tasks_of_a_stopped_agent_run_elsewhere(scheduler_address: str, tmp_path: Path) -> None:
    path = str(tmp_path / "ran")
    with start_cluster(scheduler_address, "-n", 1) as first, start_cluster(scheduler_address, "-n", 1):
        with Client(scheduler_address) as client:
            client.map(functions.square, range(100))
            first.signal(signal.SIGSTOP)
            try:
                futures = [client.submit(functions.note_and_return, path, n) for n in range(400)]
                done = wait_until(
                    lambda: sum(future.done() for future in futures) >= 390 and [f for f in futures if f.done()]
                )
                assert len(done) >= 390
            finally:
                first.signal(signal.SIGCONT)
            assert [future.result(timeout=60) for future in futures] == list(range(400))


def test_a_stopped_agent_that_wakes_up_runs_nothing_twice(scheduler_address: str, tmp_path: Path, gate: Gate) -> None:
    path = str(tmp_path / "ran")
    with start_cluster(scheduler_address, "-n", 1) as first, start_cluster(scheduler_address, "-n", 1):
        with Client(scheduler_address) as client:
            futures = [client.submit(wait_and_note, path, *gate.paths, n) for n in range(4)]
            wait_until(lambda: len(set(gate.waiting_pids)) == 2)
            first.signal(signal.SIGSTOP)
            watch = Stopwatch()
            wait_until(lambda: watch.seconds > 4)
            first.signal(signal.SIGCONT)
            gate.open()
            assert [future.result(timeout=60) for future in futures] == list(range(4))
            assert sorted(functions.notes(path)) == ["0", "1", "2", "3"]


def test_stopped_agent_beyond_the_worker_timeout(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address, "--worker-timeout-seconds", 3):
        with start_cluster(address, "-n", 1) as first, Client(address) as client:
            future = client.submit(functions.wait_at_gate, *gate.paths, "value")
            wait_until(lambda: gate.waiting_pids)
            pid = gate.waiting_pids[0]
            first.signal(signal.SIGSTOP)
            os.kill(pid, signal.SIGSTOP)
            with start_cluster(address, "-n", 1):
                wait_until(lambda: len(gate.waiting_pids) == 2, what="the task runs on the other agent")
                gate.open()
                assert future.result(timeout=60) == "value"
                first.signal(signal.SIGCONT)


def test_a_task_that_executes_another_program_in_its_place(client: Client) -> None:
    future = client.submit_verbose(os.execv, ("/bin/sleep", ["sleep", "60"]), rerun=False)
    with pytest.raises(ScalerError):
        future.result(60)


def test_a_stuck_zygote_is_replaced() -> None:
    with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
        zygote = first_zygote_of(client.submit(os.getppid).result())
        zygote.suspend()
        try:
            for _ in range(2):
                client.submit_verbose(os._exit, (1,), rerun=False).exception(50)
            assert client.submit(abs, -1).result(50) == 1
        finally:
            kill_quietly(zygote)


def first_zygote_of(agent_pid: int) -> psutil.Process:
    """The first child of an agent, if that is still alive: worker processes, and what replaces it, come later."""
    return min(psutil.Process(agent_pid).children(), key=lambda child: child.create_time())


def test_zygote_deaths_cost_nothing(client: Client, gate: Gate) -> None:
    """Kill every process of the agent that runs no task: replacements come, tasks go on."""
    future = client.submit(functions.wait_at_gate, *gate.paths, "value")
    wait_until(lambda: gate.waiting_pids)
    process = gate.waiting_pids[0]
    agent = psutil.Process(process).parent()
    assert agent is not None
    for child in agent.children(recursive=True):
        if child.pid != process:
            kill_quietly(child)
    assert client.map(functions.square, range(100)) == [n * n for n in range(100)]
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: len(gate.waiting_pids) == 2, what="the task runs again")
    gate.open()
    assert future.result(timeout=60) == "value"


# ---- all at once -----------------------------------------------------------------------------------------------


class Killer(threading.Thread):
    """Calls ``strike`` every ``period_seconds`` until told to stop."""

    def __init__(self, strike: Callable[[], None], period_seconds: float) -> None:
        super().__init__(daemon=True)
        self._strike, self._period_seconds = strike, period_seconds
        self._stopped = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stopped.wait(self._period_seconds):
                self._strike()
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join(30)
        if self.error is not None:
            raise self.error


def test_fifty_thousand_tasks_while_worker_processes_and_agents_are_killed(scheduler_address: str) -> None:
    chance = random.Random(1)
    clusters: list[Command] = [start_cluster(scheduler_address, "-n", 2) for _ in range(2)]
    strikes = 0

    def strike() -> None:
        nonlocal strikes
        strikes += 1
        if strikes % 10 == 0:
            victim = clusters.pop(0)
            victim.kill()
            victim.__exit__()
            clusters.append(start_cluster(scheduler_address, "-n", 2))
            return
        members = [child for cluster in clusters for child in cluster.family()]
        if members:
            kill_quietly(chance.choice(members))

    try:
        with Client(scheduler_address) as client, Killer(strike, 0.15):
            futures = [client.submit(functions.spin_and_square, number) for number in range(50_000)]
            wrong = [n for n, future in enumerate(futures) if future.result(timeout=120) != n * n]
        assert wrong == []
        assert strikes >= 10
    finally:
        for cluster in clusters:
            cluster.__exit__()


def test_a_killed_scheduler_and_agent_of_a_combo_leave_shutdown_harmless() -> None:
    combo = SchedulerClusterCombo(1)
    try:
        with Client(combo.get_address()) as client:
            agent = client.submit(functions.parent_process_id).result(timeout=60)
        os.kill(agent, signal.SIGKILL)
    finally:
        watch = Stopwatch()
        combo.shutdown()
        combo.shutdown()
        assert watch.seconds < 40
