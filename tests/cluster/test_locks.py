"""Locks of the cluster: they exclude in every process, and are free again whatever becomes of their holder."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.client.lock import Lock
from scaler.utility.exceptions import LockLostError, ProcessorDiedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import child_environment, start_cluster, start_scheduler
from tests.support.killed_waiter import kill_a_waiter
from tests.support.ports import free_address
from tests.support.waiting import wait_until


class Room:
    """A folder in which there is room for one: who enters while somebody is inside is noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def _inside(self) -> Path:
        return self.folder / "inside"

    def use(self, seconds: float = 0.0005) -> None:
        self.enter()
        time.sleep(seconds)
        self.leave()

    def enter(self) -> None:
        try:
            os.close(os.open(self._inside, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            functions.note(str(self.folder / "crowded"), "x")
        functions.note(str(self.folder / "entered"), str(os.getpid()))

    def leave(self) -> None:
        self._inside.unlink(missing_ok=True)

    @property
    def entered(self) -> int:
        return len(functions.notes(str(self.folder / "entered")))

    def check(self, times: int) -> None:
        assert not (self.folder / "crowded").exists()
        assert self.entered == times


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[SchedulerClusterCombo]:
    """Two agents with two workers each."""
    with SchedulerClusterCombo(2) as combo, start_cluster(combo.get_address(), "-n", 2):
        yield combo


def visit(lock: Lock, room: Room) -> None:
    with lock:
        room.use()


def wait_inside(lock: Lock, room: Room, started: str, gate: str) -> None:
    with lock:
        room.enter()
        functions.wait_at_gate(started, gate)
        room.leave()


def visit_and_die_the_first_time(lock: Lock, room: Room) -> None:
    lock.acquire()
    if room.entered == 0:
        functions.note(str(room.folder / "entered"), "died here")
        os.kill(os.getpid(), signal.SIGKILL)
    room.use()
    lock.release()


# ---- tasks -----------------------------------------------------------------------------------------------------------


def test_tasks_on_several_hosts_take_turns(two_hosts: SchedulerClusterCombo, room: Room) -> None:
    with Client(two_hosts.get_address()) as client:
        lock = client.lock("turns")
        client.map(visit, [(lock, room)] * 300)
        room.check(300)


def test_the_application_takes_turns_with_tasks(client: Client, room: Room) -> None:
    lock = client.lock("application")
    futures = [client.submit(visit, lock, room) for _ in range(100)]
    for _ in range(100):
        with lock:
            room.use()
    for future in futures:
        future.result(50)
    room.check(200)


def test_threads_of_a_task_take_turns(client: Client, room: Room) -> None:
    def visit_in_threads(client: Client, room: Room) -> None:
        threads = [threading.Thread(target=visit, args=(client.lock("threads"), room)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    client.submit(visit_in_threads, client, room).result(50)
    room.check(8)


def test_several_locks_by_name_inside_a_task(client: Client) -> None:
    def two_at_once() -> tuple[bool, bool, bool]:
        with Client() as inner, inner.lock("a"), inner.lock("b"):
            return inner.lock("a").locked(), inner.lock("b").acquire(blocking=False), inner.lock("c").locked()

    assert client.submit(two_at_once).result(50) == (True, False, False)


def test_one_client_inside_a_process_uses_locks_from_task_to_task(single_client: Client) -> None:
    def name_of_session(lock: Lock) -> bytes:
        with lock:
            return lock._client.identity  # type: ignore[union-attr]

    lock = single_client.lock("from task to task")
    assert len({single_client.submit(name_of_session, lock).result(50) for _ in range(20)}) == 1


# ---- one worker ------------------------------------------------------------------------------------------------------


def test_while_a_task_waits_its_worker_runs_others(single_client: Client, room: Room) -> None:
    lock = single_client.lock("one worker")
    with lock:
        waiting = [single_client.submit(visit, lock, room) for _ in range(3)]
        assert single_client.submit(functions.square, 4).result(50) == 16
        assert not any(future.done() for future in waiting)
    for future in waiting:
        future.result(50)
    room.check(3)


def test_a_holder_waits_for_tasks_of_its_own(single_client: Client, room: Room) -> None:
    def hold_and_submit(client: Client, outer: Lock, inner: Lock, room: Room) -> int:
        with outer:
            for future in [client.submit(visit, inner, room) for _ in range(3)]:
                future.result()
            return sum(client.map(functions.square, range(4)))

    outer, inner = single_client.lock("outer"), single_client.lock("inner")
    futures = [single_client.submit(hold_and_submit, single_client, outer, inner, room) for _ in range(4)]
    assert [future.result(60) for future in futures] == [14] * 4
    room.check(12)


def test_explain_says_what_a_task_waits_for(single_client: Client, room: Room) -> None:
    lock = single_client.lock("explained")
    with lock:
        future = single_client.submit(visit, lock, room)
        wait_until(lambda: "waits for the lock 'explained', which client" in single_client.explain(future))
    future.result(50)


# ---- holders that end ------------------------------------------------------------------------------------------------


def test_a_process_that_is_killed_while_it_holds_a_lock(client: Client, room: Room) -> None:
    lock = client.lock("killed")
    futures = [client.submit(visit_and_die_the_first_time, lock, room) for _ in range(10)]
    for future in futures:
        future.result(60)
    assert not (room.folder / "crowded").exists() and not lock.locked()


def test_a_process_that_is_killed_while_it_waits_leaves_no_place_in_the_queue(client: Client, room: Room) -> None:
    def wait_and_note(lock: Lock, path: str) -> None:
        functions.note(path, str(os.getpid()))
        with lock:
            pass

    lock, path = client.lock("killed in the queue"), str(room.folder / "waiting")
    with lock:
        future = client.submit_verbose(wait_and_note, (lock, path), rerun=False)
        wait_until(lambda: "waits for the lock" in client.explain(future))
        os.kill(int(functions.notes(path)[0]), signal.SIGKILL)
        with pytest.raises(ProcessorDiedError):
            future.result(50)
    assert lock.acquire(timeout=50)
    lock.release()


@pytest.mark.parametrize("what", ["holds", "waits"])
def test_a_cancelled_task_leaves_the_lock_to_the_next(client: Client, room: Room, gate: Gate, what: str) -> None:
    lock = client.lock(f"cancelled {what}")
    if what == "holds":
        future = client.submit(wait_inside, lock, room, *gate.paths)
        wait_until(lambda: gate.waiting_pids)
        future.cancel()
    else:
        with lock:
            future = client.submit(visit, lock, room)
            wait_until(lambda: "waits for the lock" in client.explain(future))
            future.cancel()
            with pytest.raises(CancelledError):
                future.result(50)
    assert lock.acquire(timeout=50)
    lock.release()


def test_a_task_that_forgets_to_release_is_warned_of(gate: Gate) -> None:
    def forget(lock: Lock) -> None:
        lock.acquire()

    address = free_address()
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", 1), Client(address) as client:
        lock = client.lock("forgotten")
        client.submit(forget, lock).result(50)
        scheduler.wait_for_output(
            r"WARNING.*The lock 'forgotten' is released: task 1 of client \w+ (ended|closed its client) without"
        )
        assert lock.acquire(timeout=50)


def test_a_task_that_goes_over_its_time_loses_its_lock(client: Client, room: Room, gate: Gate) -> None:
    lock = client.lock("time")
    future = client.submit_verbose(wait_inside, (lock, room, *gate.paths), timeout_seconds=0.2)
    assert future.exception(50) is not None
    assert lock.acquire(timeout=50)
    lock.release()


HOLD = """
from scaler import Client
from scaler.utility.exceptions import LockLostError

with Client(sys.argv[1]) as client:
    lock = client.lock("application")
    lock.acquire()
    print("holds", flush=True)
    input()
    try:
        lock.release()
    except LockLostError as error:
        print(error, flush=True)
"""


@contextmanager
def application(address: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a lock until it is sent a line."""
    program = [sys.executable, "-c", f"import sys{HOLD}", address]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environment()
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_application_that_ends_while_it_holds_a_lock(number: signal.Signals) -> None:
    with SchedulerClusterCombo(1, client_timeout_seconds=2) as combo, Client(combo.get_address()) as client:
        with application(combo.get_address()) as process:
            lock = client.lock("application")
            assert not lock.acquire(blocking=False)
            process.send_signal(number)
            assert lock.acquire(timeout=50)


def test_an_application_that_was_stopped_during_a_restart_learns_that_it_lost_its_lock() -> None:
    address = free_address()
    with start_scheduler(address) as first, application(address) as process, Client(address) as client:
        process.send_signal(signal.SIGSTOP)
        first.kill()
        with start_scheduler(address):
            lock = client.lock("application")
            assert lock.acquire(timeout=50)
            process.send_signal(signal.SIGCONT)
            output, _ = process.communicate("\n", timeout=50)
            assert "was lost while it was held. The lock was given to others" in output
            lock.release()


# ---- schedulers that end ---------------------------------------------------------------------------------------------


def test_a_lock_outlives_its_scheduler(room: Room, gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 2), Client(address) as client:
        lock = client.lock("outlives")
        holding = client.submit(wait_inside, lock, room, *gate.paths)
        wait_until(lambda: gate.waiting_pids)
        waiting = client.submit(visit, lock, room)
        wait_until(lambda: "waits for the lock" in client.explain(waiting))
        first.kill()
        with start_scheduler(address):
            assert not lock.acquire(timeout=3)
            assert not waiting.done()
            gate.open()
            holding.result(50)
            waiting.result(50)
            room.check(2)


def test_an_application_keeps_its_lock_across_a_restart(room: Room) -> None:
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 1), Client(address) as client:
        lock = client.lock("application")
        lock.acquire()
        first.kill()
        with start_scheduler(address):
            futures = [client.submit(visit, lock, room) for _ in range(5)]
            with Client(address) as other:
                assert not other.lock("application").acquire(timeout=2.5)
            room.check(0)
            lock.release()
            for future in futures:
                future.result(50)
            room.check(5)


def test_nobody_is_let_in_twice_while_schedulers_come_and_go(room: Room) -> None:
    address = free_address()
    scheduler = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 2), Client(address) as client:
            lock = client.lock("come and go")
            futures = [client.submit(visit, lock, room) for _ in range(400)]
            for share in (50, 150):
                wait_until(lambda share=share: room.entered >= share)  # type: ignore[misc]
                scheduler.kill()
                scheduler.__exit__()
                scheduler = start_scheduler(address)
            for future in futures:
                future.result(60)
            room.check(400)
    finally:
        scheduler.__exit__()


def test_locks_can_be_sent_as_any_argument(client: Client, room: Room) -> None:
    def visit_all(*locks: Lock, **more: dict[str, list[Lock]]) -> int:
        found = [*locks, *more["more"]["locks"]]
        for lock in found:
            visit(lock, room)
        return len(found)

    lock = client.lock("sent")
    reference = client.send_object(lock)
    assert client.submit(visit_all, lock, reference, more={"locks": [lock, lock]}).result(50) == 4
    assert pickle.loads(pickle.dumps(lock)).name == "sent"
    graph = {"lock": lock, "room": room, "visit": (visit, "lock", "room")}
    client.get(graph, ["visit"])
    room.check(5)


def test_a_lock_that_was_lost_says_so(client: Client, tmp_path: Path) -> None:
    """The task goes on in a thread, although it has ended, and still believes that it holds the lock."""

    def leave_a_thread(lock: Lock, path: str) -> None:
        lock.acquire()

        def release_later() -> None:
            wait_until(lambda: lock._claims[0].text)
            try:
                lock.release()
            except LockLostError as error:
                functions.note(path, str(error))

        threading.Thread(target=release_later).start()

    path = str(tmp_path / "said")
    client.submit(leave_a_thread, client.lock("lost"), path).result(50)
    text = wait_until(lambda: os.path.exists(path) and functions.notes(path))
    assert text == ["The lock 'lost' was lost while it was held. The task that used this lock has ended."]


def test_a_client_that_is_killed_while_it_waits_is_granted_nothing(
    combo: SchedulerClusterCombo, client: Client
) -> None:
    lock = client.lock("a killed client")
    with lock:
        kill_a_waiter(client, combo.get_address(), "lock", "a killed client", "acquire", "locked")
    assert lock.acquire(timeout=20)
    lock.release()
