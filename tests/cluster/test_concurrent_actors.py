"""Actors that run several calls at the same time, in threads of their process."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ActorDiedError, TaskTimeoutError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

LIMIT_SECONDS = 30.0


class UnsendableError(Exception):
    """An exception that exits when it is pickled."""

    def __reduce__(self) -> NoReturn:
        sys.exit(1)


class Room:
    """Its calls meet: each may need another one that runs at the same time."""

    def __init__(self, size: int = 3) -> None:
        self.barrier = threading.Barrier(size)
        self.events: dict[str, threading.Event] = {}
        self.log: list[object] = []
        self.guard = threading.Lock()

    def _event(self, name: str) -> threading.Event:
        with self.guard:
            return self.events.setdefault(name, threading.Event())

    def meet(self, value: object) -> object:
        self.barrier.wait(LIMIT_SECONDS)
        return value

    def wait_for(self, name: str, value: object = None) -> object:
        assert self._event(name).wait(LIMIT_SECONDS)
        return value

    def set(self, name: str) -> None:
        self._event(name).set()

    def note(self, value: object) -> int:
        self.log.append(value)
        return threading.get_ident()

    def noted(self) -> list[object]:
        return list(self.log)

    def noted_under_trace(self) -> list[object]:
        """Call a function that is traced, as a debugger does."""
        sys.settrace(lambda *_: None)
        try:
            return self.noted()
        finally:
            sys.settrace(None)

    def loop(self, name: str) -> str:
        """Run Python code until it is interrupted, or until the event."""
        try:
            self.log.append(("loops", name))
            while not self._event(name).is_set():
                time.sleep(0.001)
        except BaseException as error:
            self.log.append((type(error).__name__, name))
            raise
        return name

    def size(self, value: bytes) -> int:
        return len(value)

    def zeros(self, size: int) -> bytes:
        return bytes(size)

    def fail(self, text: str) -> NoReturn:
        raise ValueError(text)

    def warn(self, text: str) -> None:
        warnings.warn(text, UserWarning, stacklevel=1)

    def say(self, text: str) -> None:
        print(text)

    def exit(self) -> NoReturn:
        os._exit(5)

    def leave(self, code: object) -> NoReturn:
        sys.exit(code)

    def raise_unsendable(self) -> NoReturn:
        raise UnsendableError

    def lock(self) -> object:
        return self.guard

    def descend(self, room: Any, depth: int) -> int:
        """The depth at which the actor has called itself, through a handle."""
        return depth if depth == 0 else 1 + room.descend(room, depth - 1).result(timeout=LIMIT_SECONDS)

    def pid(self) -> int:
        return os.getpid()

    def at_gate(self, started: str, gate: str, value: object) -> object:
        return functions.wait_at_gate(started, gate, value)

    def square(self, address: str, value: int) -> int:
        with Client(address) as inner:
            return inner.submit(functions.square, value).result(timeout=LIMIT_SECONDS)

    def wait_in_task(self, address: str, *paths: str) -> object:
        with Client(address) as inner:
            return inner.submit(functions.wait_at_gate, *paths).result()

    def connect(self, address: str) -> None:
        self.inner = Client(address)

    def square_through_one_client(self, value: int) -> int:
        return self.inner.submit(functions.square, value).result(timeout=LIMIT_SECONDS)

    def squares_in_threads(self, address: str) -> list[int]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(self.square, [address] * 4, range(4)))


def make_room(client: Client, concurrency: int, size: int = 3) -> Any:
    return client.actor_verbose(Room, (size,), max_concurrency=concurrency)


@pytest.fixture
def room(client: Client) -> Iterator[Any]:
    """An actor of which three calls run at a time."""
    made = make_room(client, 3)
    yield made
    made.kill()


def test_calls_run_at_the_same_time(room: Any) -> None:
    futures = [room.meet(number) for number in range(3)]
    assert [future.result(timeout=LIMIT_SECONDS) for future in futures] == [0, 1, 2]


def test_no_more_calls_run_than_the_actor_allows(client: Client, gate: Gate) -> None:
    room = make_room(client, 2)
    running = [room.at_gate(*gate.paths, number) for number in range(2)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    behind = [room.at_gate(*gate.paths, number) for number in range(2, 6)]
    assert behind[-1].cancel(), "it has not started"
    assert len(gate.waiting_pids) == 2
    gate.open()
    assert [future.result(timeout=LIMIT_SECONDS) for future in (*running, *behind[:-1])] == [0, 1, 2, 3, 4]
    assert len(gate.waiting_pids) == 5


def test_results_come_in_the_order_in_which_calls_end(room: Any) -> None:
    first, second = room.wait_for("open", 1), room.wait_for("other", 2)
    room.set("other").result(timeout=LIMIT_SECONDS)
    assert second.result(timeout=LIMIT_SECONDS) == 2 and not first.done()
    room.set("open").result(timeout=LIMIT_SECONDS)
    assert first.result(timeout=LIMIT_SECONDS) == 1


def test_a_call_that_never_ends_leaves_room_for_many_others(room: Any) -> None:
    waiting = room.wait_for("open", "end")
    for _ in range(4):  # more than fit on a board
        futures = [room.size(b"abc") for _ in range(10_000)]
        assert [future.result(timeout=60) for future in futures] == [3] * 10_000
    assert not waiting.done()
    room.set("open").result(timeout=LIMIT_SECONDS)
    assert waiting.result(timeout=LIMIT_SECONDS) == "end"


def test_one_call_at_a_time_by_default(client: Client) -> None:
    room = client.actor(Room)
    threads = {room.note(number).result(timeout=LIMIT_SECONDS) for number in range(3)}
    assert len(threads) == 1
    assert room.noted().result(timeout=LIMIT_SECONDS) == [0, 1, 2]


def test_large_arguments_and_results(room: Any) -> None:
    sizes = [10, 100_000, 3_000_000, 40_000] * 5
    lengths = [room.size(bytes(size)) for size in sizes]
    results = [room.zeros(size) for size in sizes]
    assert [future.result(timeout=LIMIT_SECONDS) for future in lengths] == sizes
    assert [len(future.result(timeout=LIMIT_SECONDS)) for future in results] == sizes


def test_failures_and_warnings_do_not_disturb_other_calls(room: Any) -> None:
    waiting = room.wait_for("open", 1)
    failed = [room.fail(f"failure {number}") for number in range(5)]
    for number, future in enumerate(failed):
        with pytest.raises(ValueError, match=f"failure {number}"):
            future.result(timeout=LIMIT_SECONDS)
    with pytest.warns(UserWarning, match="look out"):
        room.warn("look out").result(timeout=LIMIT_SECONDS)
    room.set("open").result(timeout=LIMIT_SECONDS)
    assert waiting.result(timeout=LIMIT_SECONDS) == 1


def test_what_a_call_ends_with_concerns_no_other(room: Any) -> None:
    waiting = room.wait_for("open", 1)
    for _ in range(3):
        with pytest.raises(TypeError, match="lock"):
            room.lock().result(timeout=LIMIT_SECONDS)
        with pytest.raises(SystemExit):
            room.leave(3).result(timeout=LIMIT_SECONDS)
    room.set("open").result(timeout=LIMIT_SECONDS)
    assert waiting.result(timeout=LIMIT_SECONDS) == 1


def test_an_actor_calls_itself_as_deep_as_it_has_threads(client: Client) -> None:
    room = make_room(client, 4)
    for _ in range(3):
        assert room.descend(room, 3).result(timeout=LIMIT_SECONDS) == 3


def test_a_cancel_ends_the_deadlock_of_an_actor_that_calls_itself_too_deep(client: Client) -> None:
    room = make_room(client, 2)
    first = room.descend(room, 2)
    with pytest.raises(TimeoutError):
        first.result(timeout=1.0)
    assert first.cancel()
    assert room.descend(room, 1).result(timeout=LIMIT_SECONDS) == 1


def test_the_output_of_calls_is_that_of_the_actor(
    combo: SchedulerClusterCombo, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(combo.get_address(), stream_output=True) as client:
        room = make_room(client, 3)
        waiting = room.wait_for("open")
        for number in range(20):
            room.say(f"line {number}").result(timeout=LIMIT_SECONDS)
        lines: list[str] = []

        def has_all() -> bool:
            room.size(b"").result(timeout=LIMIT_SECONDS)  # a client reads what arrives while it waits
            lines.extend(capsys.readouterr().out.splitlines())
            return len(lines) >= 20

        wait_until(has_all, LIMIT_SECONDS)
        assert lines == [f"line {number}" for number in range(20)] and not waiting.done()


# ---- cancels and limits ----------------------------------------------------------------------------------------------


def test_a_cancel_interrupts_its_call_alone(room: Any) -> None:
    futures = {name: room.loop(name) for name in ("a", "b")}
    wait_until(lambda: len(room.noted().result(timeout=LIMIT_SECONDS)) == 2, LIMIT_SECONDS)
    assert futures["a"].cancel() and futures["a"].cancelled()
    wait_until(lambda: ("TaskCancelled", "a") in room.noted().result(timeout=LIMIT_SECONDS), LIMIT_SECONDS)
    assert not futures["b"].done()
    room.set("b").result(timeout=LIMIT_SECONDS)
    assert futures["b"].result(timeout=LIMIT_SECONDS) == "b"
    assert ("TaskCancelled", "b") not in room.noted().result(timeout=LIMIT_SECONDS)


def test_calls_can_be_traced_after_others_and_after_a_cancel(room: Any) -> None:
    room.note(1).result(timeout=60)
    assert room.noted_under_trace().result(timeout=60) == [1]
    looping = room.loop("never")
    wait_until(lambda: ("loops", "never") in room.noted().result(timeout=60))
    assert looping.cancel()
    room.note(2).result(timeout=60)
    assert 2 in room.noted_under_trace().result(timeout=60)


def test_cancels_of_several_calls_at_once(client: Client) -> None:
    room = make_room(client, 20)
    futures = [room.loop(str(number)) for number in range(16)]
    wait_until(lambda: len(room.noted().result(timeout=LIMIT_SECONDS)) == 16, LIMIT_SECONDS)
    for future in futures[::2]:
        assert future.cancel()
    ended = {("TaskCancelled", str(number)) for number in range(0, 16, 2)}
    wait_until(lambda: ended <= set(room.noted().result(timeout=LIMIT_SECONDS)), LIMIT_SECONDS)
    for number in range(1, 16, 2):
        room.set(str(number)).result(timeout=LIMIT_SECONDS)
    assert [future.result(timeout=LIMIT_SECONDS) for future in futures[1::2]] == [str(n) for n in range(1, 16, 2)]
    names = [each for each in room.noted().result(timeout=LIMIT_SECONDS) if each[0] == "TaskCancelled"]
    assert sorted(names) == sorted(ended), "each once, and no other"


def test_a_cancel_of_a_call_that_has_run_for_long(room: Any) -> None:
    long, other = room.loop("long"), room.loop("other")
    for _ in range(2):
        futures = [room.size(b"abc") for _ in range(10_000)]  # together more than a board has cells
        assert [future.result(timeout=60) for future in futures] == [3] * 10_000
    assert long.cancel()
    wait_until(lambda: ("TaskCancelled", "long") in room.noted().result(timeout=LIMIT_SECONDS), LIMIT_SECONDS)
    room.set("other").result(timeout=LIMIT_SECONDS)
    assert other.result(timeout=LIMIT_SECONDS) == "other"


def test_short_calls_survive_the_cancels_of_others(client: Client) -> None:
    room = make_room(client, 4)
    kept = []
    for number in range(500):
        cancelled, other = room.note(number), room.size(bytes(number))
        cancelled.cancel()
        kept.append(other)
    assert [future.result(timeout=60) for future in kept] == list(range(500))


def test_the_result_of_a_short_call_waits_for_no_long_one(client: Client) -> None:
    room = make_room(client, 2)
    first, *short = [room.wait_for("never"), *[room.size(b"xyz") for _ in range(20)]]
    behind = [room.wait_for("never") for _ in range(2)]  # one of them has no thread
    assert [each.result(timeout=LIMIT_SECONDS) for each in short] == [3] * 20
    assert not any(each.done() for each in (first, *behind))
    room.kill()


def test_a_cancelled_call_that_does_not_react_ends_no_other(room: Any, client: Client) -> None:
    stuck, other = room.wait_for("stuck"), room.wait_for("open", 1)  # waits in a lock, which nothing interrupts
    pid = room.pid().result(timeout=LIMIT_SECONDS)
    assert stuck.cancel()
    client.submit(time.sleep, 3.0).result(timeout=LIMIT_SECONDS)  # longer than a task gets that does not react
    room.set("open").result(timeout=LIMIT_SECONDS)
    assert other.result(timeout=LIMIT_SECONDS) == 1 and room.pid().result(timeout=LIMIT_SECONDS) == pid
    room.set("stuck").result(timeout=LIMIT_SECONDS)


def test_the_limit_of_a_worker_counts_for_each_call() -> None:
    class Small:
        """Sent by value: its process has no modules of tests to import while the limit counts."""

        def loop(self) -> None:
            while True:
                time.sleep(0.001)

        def size(self, value: bytes) -> int:
            return len(value)

    address = free_address()
    with (
        start_scheduler(address),
        start_cluster(address, "-n", 1, "--task-timeout-seconds", 3),
        Client(address) as client,
    ):
        small = client.actor_verbose(Small, max_concurrency=3)
        looping = small.loop()
        assert small.size(b"xyz").result(timeout=LIMIT_SECONDS) == 3
        with pytest.raises(TaskTimeoutError):
            looping.result(timeout=LIMIT_SECONDS)
        assert small.size(b"xyz").result(timeout=LIMIT_SECONDS) == 3


# ---- endings ---------------------------------------------------------------------------------------------------------


def test_the_death_of_the_process_fails_all_calls(client: Client, gate: Gate) -> None:
    room = make_room(client, 3)
    futures = [room.at_gate(*gate.paths, number) for number in range(2)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    futures += [room.exit(), *(room.size(b"") for _ in range(50))]
    for future in futures[:3]:
        with pytest.raises(ActorDiedError, match="has died"):
            future.result(timeout=LIMIT_SECONDS)
    for future in futures[3:]:
        assert isinstance(future.exception(timeout=LIMIT_SECONDS), ActorDiedError | None)


def test_no_call_hangs_whose_failure_cannot_be_written_down(client: Client) -> None:
    room = make_room(client, 3)
    waiting = room.wait_for("open")
    assert room.raise_unsendable().exception(timeout=LIMIT_SECONDS) is not None
    room.set("open")
    assert waiting.exception(timeout=LIMIT_SECONDS) is None


def test_many_calls_under_way_when_the_process_is_killed(client: Client) -> None:
    room = make_room(client, 8)
    pid = room.pid().result(timeout=LIMIT_SECONDS)
    futures = [room.size(b"abc") for _ in range(10_000)]
    wait_until(futures[1000].done, LIMIT_SECONDS)
    os.kill(pid, signal.SIGKILL)
    ended = [future.exception(timeout=LIMIT_SECONDS) for future in futures]
    assert {type(error) for error in ended} <= {type(None), ActorDiedError}
    assert all(future.result() == 3 for future, error in zip(futures, ended, strict=True) if error is None)
    with pytest.raises(ActorDiedError):
        room.size(b"abc").result(timeout=LIMIT_SECONDS)
    assert make_room(client, 8).size(b"abc").result(timeout=LIMIT_SECONDS) == 3


def test_an_actor_that_is_made_again_runs_several_calls(client: Client) -> None:
    room = client.actor_verbose(Room, (2,), max_restarts=1, max_concurrency=2)
    with pytest.raises(ActorDiedError):
        room.exit().result(timeout=LIMIT_SECONDS)
    futures = [room.meet(number) for number in range(2)]
    assert [future.result(timeout=LIMIT_SECONDS) for future in futures] == [0, 1]


def test_a_restart_of_the_scheduler_amid_calls() -> None:
    address = free_address()
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 1), Client(address) as client:
            room = make_room(client, 4)
            waiting = room.wait_for("open", "end")
            futures = [room.size(bytes(number)) for number in range(300)]
            wait_until(futures[50].done, LIMIT_SECONDS)
            first.kill()
            with start_scheduler(address):
                futures += [room.size(bytes(number)) for number in range(300, 400)]
                assert [future.result(timeout=60) for future in futures] == list(range(400))
                assert not waiting.done()
                room.set("open").result(timeout=LIMIT_SECONDS)
                assert waiting.result(timeout=LIMIT_SECONDS) == "end"
    finally:
        first.__exit__()


# ---- tasks of calls --------------------------------------------------------------------------------------------------


def test_calls_submit_tasks_while_the_only_worker_hosts_their_actor(
    single_combo: SchedulerClusterCombo, single_client: Client
) -> None:
    room = make_room(single_client, 3)
    waiting = room.wait_for("open", "end")
    futures = [room.square(single_combo.get_address(), number) for number in range(20)]
    assert [future.result(timeout=60) for future in futures] == [number**2 for number in range(20)]
    room.set("open").result(timeout=LIMIT_SECONDS)
    assert waiting.result(timeout=LIMIT_SECONDS) == "end"
    room.kill()


def test_calls_share_a_client(single_combo: SchedulerClusterCombo, single_client: Client) -> None:
    room = make_room(single_client, 3)
    room.connect(single_combo.get_address()).result(timeout=LIMIT_SECONDS)
    futures = [room.square_through_one_client(number) for number in range(12)]
    assert [future.result(timeout=60) for future in futures] == [number**2 for number in range(12)]
    room.kill()


def test_threads_of_a_call_submit_tasks(single_combo: SchedulerClusterCombo, single_client: Client) -> None:
    room = make_room(single_client, 2)
    futures = [room.squares_in_threads(single_combo.get_address()) for _ in range(3)]
    assert [future.result(timeout=60) for future in futures] == [[0, 1, 4, 9]] * 3
    room.kill()


def test_a_call_that_is_cancelled_ends_its_own_tasks(
    single_combo: SchedulerClusterCombo, single_client: Client, gate: Gate
) -> None:
    room = make_room(single_client, 2)
    nested = room.wait_in_task(single_combo.get_address(), *gate.paths)
    other = room.square(single_combo.get_address(), 7)
    wait_until(lambda: gate.waiting_pids, LIMIT_SECONDS)
    assert nested.cancel()
    assert other.result(timeout=60) == 49
    assert room.square(single_combo.get_address(), 8).result(timeout=60) == 64
    room.kill()


def test_numbers_of_calls_that_cannot_be(client: Client) -> None:
    for number in (0, -1, 401):
        with pytest.raises(ValueError, match="max_concurrency must be between 1 and 400"):
            make_room(client, number)
    with pytest.raises(TypeError, match="max_concurrency must be a whole number"):
        make_room(client, "3")  # type: ignore[arg-type]
