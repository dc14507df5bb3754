"""Symphony fails, the service fails, processes die: no task is lost and none is answered twice."""

from __future__ import annotations

import os
import pickle
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from scaler import Client
from scaler.utility.exceptions import ScalerError, WorkerDiedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster
from tests.support.symphony import Rig
from tests.support.waiting import wait_until

BASE_CONCURRENCY = 4


@pytest.fixture(scope="module")
def shared_rig() -> Iterator[Rig]:
    with Rig("-n", BASE_CONCURRENCY) as running:
        yield running


@pytest.fixture
def rig(shared_rig: Rig) -> Iterator[Rig]:
    """Whatever goes wrong in a test ends with it."""
    yield shared_rig
    shared_rig.symphony.faults(
        shuffled=False, twice=False, early_seconds=0.0, refused_sessions=0, refused_inputs=0, failed_tasks=0,
        embedded=b"", unknown_answers=0, garbage=(), held=False, silent_end=False,
    )  # fmt: skip


@pytest.fixture
def client(rig: Rig) -> Iterator[Client]:
    with Client(rig.address) as connected:
        yield connected


class Answers:
    """How often each future was resolved."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def watch(self, client: Client, number: int):  # type: ignore[no-untyped-def]
        future = client.submit(functions.square, number)
        future.add_done_callback(lambda _: self.counts.update([number]))
        return future


# ---- sessions ----------------------------------------------------------------------------------------------------


def test_ten_thousand_tasks_and_two_deaths_of_the_session(rig: Rig, client: Client) -> None:
    sessions, answers = rig.symphony.state()["sessions"], Answers()
    futures = [answers.watch(client, number) for number in range(10_000)]
    for done in (2_000, 6_000):
        wait_until(lambda done=done: len(answers.counts) >= done, 60)
        rig.symphony.end_sessions()
    assert [future.result(timeout=60) for future in futures] == [number * number for number in range(10_000)]
    wait_until(lambda: len(answers.counts) == 10_000)
    assert set(answers.counts.values()) == {1}
    state = rig.symphony.state()
    assert state["sessions"] == sessions + 2 and state["most_open"] <= BASE_CONCURRENCY


def test_what_ran_in_a_dead_session_runs_again(rig: Rig, client: Client, gate: Gate) -> None:
    futures = [client.submit(functions.wait_at_gate, *gate.paths, number) for number in range(2)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    rig.symphony.end_sessions()
    wait_until(lambda: len(gate.waiting_pids) == 4)
    gate.open()
    assert [future.result(timeout=60) for future in futures] == [0, 1]


def test_what_must_not_run_twice_does_not(rig: Rig, client: Client, gate: Gate) -> None:
    future = client.submit_verbose(functions.wait_at_gate, gate.paths, rerun=False)
    wait_until(lambda: gate.waiting_pids)
    rig.symphony.end_sessions()
    with pytest.raises(WorkerDiedError, match="wait_at_gate ended, and it must not run again"):
        future.result(timeout=60)
    assert len(gate.waiting_pids) == 1


def test_a_cancelled_task_does_not_run_again(rig: Rig, client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel()
    client.explain(future)
    rig.symphony.end_sessions()
    assert client.submit(functions.square, 3).result(timeout=60) == 9
    assert len(gate.waiting_pids) == 1


def test_sessions_that_cannot_be_opened_are_tried_again(rig: Rig, client: Client) -> None:
    rig.symphony.faults(refused_sessions=3)
    rig.symphony.end_sessions()
    assert client.map(functions.square, range(20)) == [number * number for number in range(20)]
    assert "the session manager is busy" in rig.command.output


def test_a_session_that_ends_without_a_word(rig: Rig, client: Client) -> None:
    rig.symphony.faults(silent_end=True)
    rig.symphony.end_sessions()
    assert client.map(functions.square, range(20)) == [number * number for number in range(20)]


def test_symphony_itself_is_killed_and_comes_back(gate: Gate) -> None:
    with Rig("-n", 2) as rig, Client(rig.address) as client:
        waiting = client.submit(functions.wait_at_gate, *gate.paths, "value")
        wait_until(lambda: gate.waiting_pids)
        rig.symphony.restart()
        gate.open()
        assert waiting.result(timeout=60) == "value"
        assert client.map(functions.square, range(20)) == [number * number for number in range(20)]


# ---- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [{"shuffled": True}, {"twice": True}, {"early_seconds": 0.05}, {"unknown_answers": 9}]
)
def test_answers_in_any_order_and_at_any_time(rig: Rig, client: Client, fault: dict[str, object]) -> None:
    rig.symphony.faults(**fault)
    answers = Answers()
    futures = [answers.watch(client, number) for number in range(200)]
    assert [future.result(timeout=60) for future in futures] == [number * number for number in range(200)]
    wait_until(lambda: len(answers.counts) == 200)
    assert set(answers.counts.values()) == {1}


def test_everything_at_once(rig: Rig, client: Client) -> None:
    rig.symphony.faults(shuffled=True, twice=True, early_seconds=0.02, unknown_answers=5, refused_inputs=1)
    futures = [client.submit(functions.square, number) for number in range(300)]
    for done in (50, 150):
        wait_until(lambda done=done: sum(future.done() for future in futures) >= done)
        rig.symphony.end_sessions()
    assert [future.result(timeout=60) for future in futures] == [number * number for number in range(300)]


GARBAGE = {
    "nothing": b"",
    "no pickle": b"\xff\x00 garbage",
    "a pickle of something else": pickle.dumps({"a": 1}),
    "a pickle that names a function": pickle.dumps(os.system),
    "short bytes": pickle.dumps(b"x"),
    "long bytes": pickle.dumps(b"x" * 1000),
    "an object": cloudpickle.dumps(lambda: 1),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_a_service_that_returns_garbage(rig: Rig, client: Client, garbage: bytes) -> None:
    rig.symphony.faults(garbage=(garbage,))
    with pytest.raises(WorkerDiedError, match="the service ScalerService returned .* for square") as caught:
        client.submit(functions.square, 3).result(timeout=60)
    assert "examples/symphony/service.py" in str(caught.value) and "\n" not in str(caught.value)
    assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_a_task_that_symphony_fails(rig: Rig, client: Client) -> None:
    rig.symphony.faults(failed_tasks=1)
    with pytest.raises(ScalerError, match="could not run square: SoamException: the host of the task caught fire"):
        client.submit(functions.square, 3).result(timeout=60)
    assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_a_task_that_symphony_fails_with_an_exception(rig: Rig, client: Client) -> None:
    rig.symphony.faults(failed_tasks=1, embedded=pickle.dumps(MemoryError("no room for the input")))
    with pytest.raises(MemoryError, match="no room for the input") as caught:
        client.submit(functions.square, 3).result(timeout=60)
    assert "the service ScalerService could not run the task: MemoryError: no room" in str(caught.value.__cause__)
    rig.symphony.faults(failed_tasks=1)
    assert client.submit_verbose(functions.square, (3,), retries=1).result(timeout=60) == 9


def test_a_task_that_kills_its_instance(client: Client, tmp_path: Path) -> None:
    with pytest.raises(WorkerDiedError, match="its instance died 3 times"):
        client.submit(functions.exit_process, str(tmp_path / "ran")).result(timeout=60)
    assert client.submit(functions.exit_process_at_first, str(tmp_path / "first"), 5).result(timeout=60) == 5


def test_an_input_that_is_not_taken(rig: Rig, client: Client) -> None:
    rig.symphony.faults(refused_inputs=1)
    assert client.submit(functions.square, 3).result(timeout=60) == 9
    rig.symphony.faults(refused_inputs=1000)
    with pytest.raises(WorkerDiedError, match="does not take the input of square: SoamException: the input is not"):
        client.submit(functions.square, 3).result(timeout=60)
    rig.symphony.faults(refused_inputs=0)
    assert client.submit(functions.square, 3).result(timeout=60) == 9


# ---- scheduler and agents ----------------------------------------------------------------------------------------


def test_the_scheduler_is_killed_and_comes_back(gate: Gate) -> None:
    with Rig("-n", 2) as rig, Client(rig.address) as client:
        running = client.submit(functions.wait_at_gate, *gate.paths, "value")
        wait_until(lambda: gate.waiting_pids)
        futures = [client.submit(functions.square, number) for number in range(500)]
        wait_until(futures[20].done)
        rig.restart_scheduler()
        assert [future.result(timeout=60) for future in futures] == [number * number for number in range(500)]
        gate.open()
        assert running.result(timeout=60) == "value"
        assert len(gate.waiting_pids) == 1


def test_others_take_over_while_symphony_is_away() -> None:
    with Rig("-n", 2) as rig, Client(rig.address) as client:
        rig.symphony.faults(refused_sessions=1_000_000)
        rig.symphony.end_sessions()
        futures = [client.submit(functions.square, number) for number in range(50)]
        with start_cluster(rig.address, "-n", 1):
            assert [future.result(timeout=60) for future in futures] == [number * number for number in range(50)]
        rig.symphony.faults(refused_sessions=0)
        assert client.submit(functions.square, 3).result(timeout=60) == 9


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_others_take_over(number: signal.Signals, gate: Gate) -> None:
    """The command dies, leaves or stands still: its tasks are done by workers of another host."""
    flags = ("--worker-timeout-seconds", 3)
    with Rig("-n", 2, "--grace-seconds", 0.2, scheduler_flags=flags) as rig, Client(rig.address) as client:
        running = client.submit(functions.wait_at_gate, *gate.paths, "value")
        wait_until(lambda: gate.waiting_pids)
        futures = [client.submit(functions.spin_and_square, number) for number in range(200)]
        with start_cluster(rig.address, "-n", 1):
            rig.command.signal(number)
            wait_until(lambda: len(gate.waiting_pids) == 2)
            gate.open()
            assert running.result(timeout=60) == "value"
            assert [future.result(timeout=60) for future in futures] == [number * number for number in range(200)]
        if number == signal.SIGTERM:
            assert rig.command.wait() == 0
        elif number == signal.SIGSTOP:
            rig.command.signal(signal.SIGCONT)
            assert client.submit(functions.square, 3).result(timeout=60) == 9
            assert rig.command.terminate() == 0
