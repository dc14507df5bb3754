"""Actors: instances in worker processes of their own."""

from __future__ import annotations

import collections
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.client.actors import ActorHandle
from scaler.utility.exceptions import ActorDiedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


class Counter:
    """Counts, and says where it lives."""

    made = 0

    def __init__(self, value: int = 0) -> None:
        type(self).made += 1
        self.value = value
        self.seen: list[object] = []

    def add(self, number: int = 1) -> int:
        self.value += number
        return self.value

    def add_all(self, numbers: list[int]) -> int:
        return self.add(sum(numbers))

    def get(self) -> int:
        return self.value

    def note(self, value: object) -> list[object]:
        self.seen.append(value)
        return self.seen

    def pid(self) -> int:
        return os.getpid()

    def fail(self) -> NoReturn:
        raise ValueError("this call failed")

    def exit(self, code: int) -> NoReturn:
        os._exit(code)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, started: str, gate: str) -> int:
        functions.wait_at_gate(started, gate, self.value)
        return self.add()

    def size_of(self, data: bytes) -> int:
        return len(data)

    def bytes_of(self, size: int) -> bytes:
        return bytes(size)

    def nested(self, address: str, number: int) -> int:
        with Client(address) as client:
            return client.submit(functions.square, number).result(timeout=60)

    @staticmethod
    def double(number: int) -> int:
        return 2 * number


class Broken:
    def __init__(self) -> None:
        raise KeyError("the constructor failed")

    def get(self) -> int:
        return 1


class BrokenAndCounted:
    def __init__(self, path: str) -> None:
        with open(path, "a") as file:
            file.write("x")
        raise KeyError("the constructor failed")

    def get(self) -> int:
        return 1


def make_in_task() -> ActorHandle[Counter]:
    return Client().actor(Counter)


def make_counter_in_task(address: str) -> list[int]:
    with Client(address) as client:
        counter = client.actor(Counter, 10)
        return [counter.add().result(timeout=60) for _ in range(3)]


def is_idle(client: Client) -> bool:
    """Nothing runs, not even an actor."""
    return client.cluster_info().tasks.running == 0


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_calls_change_the_state_and_return_futures(client: Client) -> None:
    counter = client.actor(Counter, 5)
    assert counter.add().result(timeout=60) == 6
    assert counter.add(number=4).result(timeout=60) == 10
    assert counter.get().result(timeout=60) == 10
    assert counter.double(21).result(timeout=60) == 42


def test_calls_run_in_the_order_of_their_submission_whatever_the_method(client: Client) -> None:
    counter = client.actor(Counter)
    futures = []
    for _ in range(500):
        futures += [counter.add(), counter.get(), counter.add(number=1), counter.add(1)]
    values = [future.result(timeout=60) for future in futures]
    assert values == [3 * turn + step for turn in range(500) for step in (1, 1, 2, 3)]


def test_an_actor_stays_in_its_process_and_others_have_others(client: Client) -> None:
    one, two = client.actor(Counter), client.actor(Counter)
    pids = [counter.pid().result(timeout=60) for counter in (one, two, one, two)]
    assert pids[:2] == pids[2:] and pids[0] != pids[1]
    assert one.add().result(timeout=60) == 1


def test_the_worker_of_an_actor_at_rest_is_busy(combo: SchedulerClusterCombo, client: Client) -> None:
    """It takes no other task, so that monitors must not show it as idle."""
    with Client(combo.get_address()) as watcher:

        def busy_workers() -> int:
            return sum(worker.has_task for agent in watcher.cluster_info().agents for worker in agent.workers)

        counter = client.actor(Counter)
        counter.add().result()
        wait_until(lambda: busy_workers() == 1)
        del counter
        gc.collect()
        wait_until(lambda: busy_workers() == 0)


def test_several_threads_share_an_actor(client: Client) -> None:
    counter = client.actor(Counter)
    threads = [threading.Thread(target=lambda: [counter.add() for _ in range(300)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.get().result(timeout=60) == 1200


def test_large_arguments_and_results_keep_the_order(client: Client) -> None:
    counter = client.actor(Counter)
    sizes = [counter.size_of(bytes(size)) for size in (10, 3_000_000, 20, 500_000, 30)]
    assert [future.result(timeout=60) for future in sizes] == [10, 3_000_000, 20, 500_000, 30]
    assert len(counter.bytes_of(5_000_000).result(timeout=60)) == 5_000_000
    reference = client.send_object(bytes(100_000))
    futures = [counter.note(reference), counter.note(2), counter.note(bytes(70_000)), counter.note(4)]
    seen = futures[-1].result(timeout=60)
    assert [each if isinstance(each, int) else len(each) for each in seen] == [100_000, 2, 70_000, 4]


def test_a_handle_whose_client_is_elsewhere_says_so(client: Client) -> None:
    handle = client.submit(make_in_task).result(timeout=60)
    with pytest.raises(RuntimeError, match=r"Cannot call the actor here: .* Use client.get_actor\(name\)"):
        handle.add()


def test_futures_as_arguments(client: Client) -> None:
    counter = client.actor(Counter, client.submit(functions.square, 3))
    squares = [client.submit(functions.square, number) for number in range(1, 5)]
    assert [counter.add(square).result(timeout=60) for square in squares] == [10, 14, 23, 39]
    assert client.submit(functions.square, counter.get()).result(timeout=60) == 39 * 39
    assert counter.note([client.submit(functions.square, 5), 1]).result(timeout=60) == [[25, 1]]


def test_a_future_that_is_a_node_is_an_argument_of_a_constructor(client: Client) -> None:
    """Results of this function were arguments before, so its tasks are nodes of the open graph."""
    assert client.submit(functions.add, client.submit(functions.square, 2), 1).result(timeout=60) == 5
    for _ in range(2):
        counter = client.actor(Counter, client.submit(functions.square, 3))
        assert counter.add(client.submit(functions.square, 1)).result(timeout=60) == 10


def test_a_call_that_waits_for_a_future_holds_back_those_behind_it(client: Client, gate: Gate) -> None:
    counter = client.actor(Counter)
    assert counter.note(0).result(timeout=60) == [0]
    late = client.submit(functions.wait_at_gate, *gate.paths, "late")
    futures = [counter.note(late), counter.note("behind"), counter.note([late]), counter.note("last")]
    wait_until(lambda: gate.waiting_pids)
    assert not futures[1].done()
    gate.open()
    assert futures[-1].result(timeout=60) == [0, "late", "behind", ["late"], "last"]


def test_a_call_that_is_cancelled_while_it_waits_lets_none_overtake(client: Client, gate: Gate) -> None:
    counter = client.actor(Counter)
    first = counter.note(client.submit(functions.wait_at_gate, *gate.paths, "late"))
    cancelled, behind, last = counter.note(1), counter.note(2), counter.note(3)
    assert cancelled.cancel()
    assert last.cancel()
    after = counter.note(4)
    wait_until(lambda: gate.waiting_pids)
    assert not behind.done() and not after.done()
    gate.open()
    assert after.result(timeout=60) == ["late", 2, 4] and first.done() and behind.done()


def test_a_call_whose_argument_failed_fails_and_the_next_ones_run(client: Client) -> None:
    counter = client.actor(Counter)
    bad = client.submit(functions.fail_with, "an input") if hasattr(functions, "fail_with") else counter.fail()
    futures = [counter.note(1), counter.note(bad), counter.note(2)]
    with pytest.raises(Exception):  # noqa: B017  that of the input
        futures[1].result(timeout=60)
    assert futures[2].result(timeout=60) == [1, 2]


def test_an_exception_of_a_method_is_that_of_its_call_alone(client: Client) -> None:
    counter = client.actor(Counter)
    with pytest.raises(ValueError, match="this call failed"):
        counter.fail().result(timeout=60)
    assert counter.add().result(timeout=60) == 1


def test_a_method_may_submit_tasks(combo: SchedulerClusterCombo, client: Client) -> None:
    counter = client.actor(Counter)
    assert counter.nested(combo.get_address(), 7).result(timeout=40) == 49


def test_a_task_may_make_an_actor_which_ends_with_it(combo: SchedulerClusterCombo, client: Client) -> None:
    assert client.submit(make_counter_in_task, combo.get_address()).result(timeout=40) == [11, 12, 13]
    wait_until(lambda: is_idle(client))


def test_many_calls_at_once(client: Client) -> None:
    counter = client.actor(Counter)
    futures = [counter.add() for _ in range(50_000)]
    assert futures[-1].result(timeout=60) == 50_000


# ---- handles elsewhere -----------------------------------------------------------------------------------------------


def add_often(counter: Any, times: int) -> list[int]:
    futures = [counter.add() for _ in range(times)]
    return [future.result(timeout=60) for future in futures]


def end_it(counter: Any) -> str:
    try:
        counter.kill()
    except RuntimeError as error:
        return str(error)
    return ""


def test_tasks_call_an_actor_of_their_client(client: Client) -> None:
    counter = client.actor(Counter)
    futures = [client.submit(add_often, counter, 20) for _ in range(5)]
    values = [future.result(timeout=60) for future in futures]
    assert all(sorted(each) == each for each in values)
    assert sorted(sum(values, [])) == list(range(1, 101))
    assert "only the client that has made it" in client.submit(end_it, counter).result(timeout=60)
    assert counter.get().result(timeout=60) == 100


def add_values_of_two_clients(counter: Any) -> list[int]:
    values = [counter.add().result(timeout=60)]
    for number in (10, 20):
        with Client() as client:
            values.append(counter.add(client.submit(functions.increment, number)).result(timeout=60))
            values.append(counter.add_all([client.submit(functions.increment, number)]).result(timeout=60))
    return values


def test_a_task_passes_futures_of_its_own_client_to_an_actor(client: Client) -> None:
    counter = client.actor(Counter)
    assert client.submit(add_values_of_two_clients, counter).result(timeout=60) == [1, 12, 23, 44, 65]


def add_before_an_earlier_call_has_ended(counter: Any, *gate: str) -> str:
    with Client() as client:
        waiting = counter.wait(*gate)
        try:
            counter.add(client.submit(functions.increment, 1))
        except ValueError as error:
            return str(error)
        finally:
            waiting.cancel()
    return ""


def test_a_call_does_not_overtake_the_earlier_ones_by_the_client_of_its_argument(client: Client, gate: Gate) -> None:
    counter = client.actor(Counter)
    refusal = client.submit(add_before_an_earlier_call_has_ended, counter, *gate.paths).result(timeout=60)
    assert "a future of another client, by which the call might overtake earlier ones" in refusal


def test_a_handle_that_comes_back_is_that_of_the_same_actor(client: Client) -> None:
    counter = client.actor(Counter)
    again = client.submit(functions.identity, counter).result(timeout=60)
    assert again.add().result(timeout=60) == 1
    assert pickle.loads(pickle.dumps(counter)).add().result(timeout=60) == 2
    del again
    gc.collect()
    assert counter.add().result(timeout=60) == 3


def test_a_published_actor_is_found_by_its_name(combo: SchedulerClusterCombo, client: Client) -> None:
    counter = client.actor(Counter, 10)
    client.publish(counter=counter)
    with Client(combo.get_address()) as other:
        found = other.published("counter")
        assert found.add(1).result(60) == 11 and counter.add(1).result(60) == 12
        counter.kill()
        with pytest.raises(ActorDiedError):
            found.add(1).result(60)
        other.unpublish("counter")


def test_a_task_that_calls_an_ended_actor(client: Client) -> None:
    counter = client.actor(Counter)
    assert counter.add().result(timeout=60) == 1
    counter.kill()
    with pytest.raises(ActorDiedError):
        client.submit(add_often, counter, 1).result(timeout=60)


def test_an_actor_of_another_cluster(client: Client) -> None:
    with SchedulerClusterCombo(n_workers=1) as elsewhere, Client(elsewhere.get_address()) as owner:
        counter = owner.actor(Counter)
        with pytest.raises(ActorDiedError, match="The actor of Counter is unknown to this cluster: "):
            client.submit(add_often, counter, 1).result(timeout=60)
        assert counter.add().result(timeout=60) == 1


def call_later(counters: list[Any], *gate: str) -> int:
    functions.wait_at_gate(*gate)
    return int(counters[0].add().result(timeout=60))


def test_a_call_with_a_handle_keeps_the_actor_alive(client: Client, gate: Gate) -> None:
    counter = client.actor(Counter, 6)
    pid = counter.pid().result(timeout=60)
    future = client.submit(call_later, [counter], *gate.paths)
    del counter
    gc.collect()
    wait_until(lambda: bool(gate.waiting_pids))
    gate.open()
    assert future.result(timeout=60) == 7
    wait_until(lambda: not psutil.pid_exists(pid), what="it ends after the call")
    wait_until(lambda: is_idle(client))


def test_a_pickled_handle_keeps_nothing_alive(client: Client) -> None:
    counter = client.actor(Counter)
    pid = counter.pid().result(timeout=60)
    pickle.dumps(counter)
    del counter
    gc.collect()
    wait_until(lambda: not psutil.pid_exists(pid))
    assert client.submit(abs, -1).result(timeout=60) == 1


# ---- names -----------------------------------------------------------------------------------------------------------


def add_by_name(name: str) -> int:
    with Client() as inner:
        return int(inner.get_actor(name).add().result(timeout=60))


def test_a_named_actor_is_found_by_clients_and_tasks(combo: SchedulerClusterCombo, client: Client) -> None:
    counter = client.actor_verbose(Counter, (10,), name="counter")
    assert ", actor 'counter') " in client.explain(counter._actor.anchor)
    assert client.submit(add_by_name, "counter").result(timeout=60) == 11
    with Client(combo.get_address()) as other:
        assert other.get_actor("counter").add().result(timeout=60) == 12
        with pytest.raises(ValueError, match="another actor has this name"):
            other.actor_verbose(Counter, name="counter")
        counter.kill()
        again = other.actor_verbose(Counter, kwargs={"value": 100}, name="counter")
        assert client.get_actor("counter").get().result(timeout=60) == 100
        del again
        gc.collect()
        wait_until(lambda: not has_actor(client, "counter"))


def test_a_named_actor_is_called_by_another_program(combo: SchedulerClusterCombo, client: Client) -> None:
    letters = client.actor_verbose(collections.Counter, ("aab",), name="letters")
    program = """
import sys
from scaler import Client
with Client(sys.argv[1]) as client:
    print(client.get_actor("letters").total().result(timeout=60))
"""
    command = [sys.executable, "-c", program, combo.get_address()]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == "3\n"
    letters.kill()


def has_actor(client: Client, name: str) -> bool:
    try:
        client.get_actor(name)
    except ValueError:
        return False
    return True


def test_the_name_of_an_actor_whose_client_has_left_is_free(combo: SchedulerClusterCombo, client: Client) -> None:
    with Client(combo.get_address()) as other:
        counter = other.actor_verbose(Counter, name="left")
        assert client.get_actor("left").add().result(timeout=60) == 1
        del counter
    wait_until(lambda: not has_actor(client, "left"))
    assert client.actor_verbose(Counter, name="left").add().result(timeout=60) == 1


def test_names_that_cannot_be(client: Client) -> None:
    with pytest.raises(ValueError, match="Cannot find an actor named 'nobody'"):
        client.get_actor("nobody")
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        client.actor_verbose(Counter, name="")
    with pytest.raises(TypeError, match="is a string"):
        client.get_actor(1)  # type: ignore[arg-type]


def test_a_name_stays_through_a_restart_of_the_scheduler() -> None:
    address = free_address()
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 1), Client(address) as client, Client(address) as other:
            counter = client.actor_verbose(Counter, name="lasting")
            assert other.get_actor("lasting").add().result(timeout=60) == 1
            first.kill()
            with start_scheduler(address):
                assert counter.add().result(timeout=60) == 2
                wait_until(lambda: has_actor(other, "lasting"))
                assert other.get_actor("lasting").add().result(timeout=60) == 3
    finally:
        first.__exit__()


# ---- restarts --------------------------------------------------------------------------------------------------------


def next_value(counter: Any, pid: int) -> int:
    """Of the next instance: calls that reach the one that dies fail."""
    while True:
        try:
            assert counter.pid().result(timeout=60) != pid
            return int(counter.add().result(timeout=60))
        except ActorDiedError as error:
            assert "Its state is lost; later calls reach a new instance" in str(error)


def test_an_actor_is_made_again_with_a_new_state(client: Client, gate: Gate) -> None:
    counter = client.actor_verbose(Counter, (5,), max_restarts=2)
    for _ in range(2):
        assert counter.add().result(timeout=60) == 6
        assert counter.add().result(timeout=60) == 7
        pid = counter.pid().result(timeout=60)
        running = counter.wait(*gate.paths)
        wait_until(lambda at=pid: at in gate.waiting_pids)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ActorDiedError, match="Its state is lost"):
            running.result(timeout=60)
        assert next_value(counter, pid) == 6
        assert counter.add(-1).result(timeout=60) == 5
    os.kill(counter.pid().result(timeout=60), signal.SIGKILL)
    wait_until(lambda: is_idle(client))
    with pytest.raises(ActorDiedError, match="died 3 time"):
        counter.add().result(timeout=60)


def test_calls_that_no_process_has_reach_the_new_instance() -> None:
    address = free_address()
    with start_scheduler(address), Client(address) as client:
        with start_cluster(address, "-n", 1) as cluster:
            counter = client.actor_verbose(Counter, (5,), max_restarts=-1)
            assert counter.add().result(timeout=60) == 6
            cluster.kill()
        wait_until(lambda: not client.cluster_info().workers)
        futures = [counter.add() for _ in range(100)]
        with start_cluster(address, "-n", 1):
            assert [future.result(timeout=60) for future in futures] == list(range(6, 106))


def test_a_constructor_that_raises_is_not_repeated(client: Client, tmp_path: Path) -> None:
    broken = client.actor_verbose(BrokenAndCounted, (str(tmp_path / "made"),), max_restarts=5)
    with pytest.raises(ActorDiedError, match="the constructor failed"):
        broken.get().result(timeout=60)
    assert (tmp_path / "made").read_text() == "x"


def test_a_killed_actor_is_not_made_again(client: Client) -> None:
    counter = client.actor_verbose(Counter, max_restarts=-1)
    assert counter.add().result(timeout=60) == 1
    counter.kill()
    with pytest.raises(ActorDiedError, match="was killed"):
        counter.add().result(timeout=60)
    wait_until(lambda: is_idle(client))


def test_numbers_of_restarts_that_cannot_be(client: Client) -> None:
    for number in (-2, 251):
        with pytest.raises(ValueError, match="max_restarts must be between 0 and 250"):
            client.actor_verbose(Counter, max_restarts=number)
    with pytest.raises(TypeError, match="max_restarts must be a whole number"):
        client.actor_verbose(Counter, max_restarts=1.5)  # type: ignore[arg-type]


# ---- mistakes --------------------------------------------------------------------------------------------------------


def test_mistakes_are_told_at_once(client: Client) -> None:
    with pytest.raises(TypeError, match="it is not a class"):
        client.actor(functions.square, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Cannot call Counter"):
        client.actor(Counter, 1, 2, 3)  # type: ignore[call-arg]
    counter = client.actor(Counter)
    with pytest.raises(AttributeError, match="no method 'subtract'"):
        counter.subtract(1)
    with pytest.raises(TypeError, match="Cannot call Counter.add"):
        counter.add(1, 2)
    assert counter.add().result(timeout=60) == 1


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_an_actor_ends_with_its_last_handle_after_its_calls(client: Client) -> None:
    counter = client.actor(Counter)
    pid = counter.pid().result(timeout=60)
    again, method = counter, counter.add
    future = counter.sleep(0.3)
    last = counter.add()
    del counter, again
    assert method().result(timeout=60) == 2
    del method
    gc.collect()
    assert future.result(timeout=60) is None
    assert last.result(timeout=60) == 1
    wait_until(lambda: not psutil.pid_exists(pid), what="its process has ended")
    wait_until(lambda: is_idle(client))


def test_many_actors_one_after_another_leave_nothing(client: Client) -> None:
    for number in range(10):
        assert client.actor(Counter, number).add().result(timeout=60) == number + 1
    wait_until(lambda: is_idle(client))


def test_an_actor_whose_constructor_raises(client: Client) -> None:
    broken = client.actor(Broken)
    with pytest.raises(ActorDiedError, match="the constructor failed") as caught:
        broken.get().result(timeout=60)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ActorDiedError, match="could not be made"):
        broken.get().result(timeout=60)
    assert client.actor(Counter).add().result(timeout=60) == 1


def test_an_actor_whose_process_is_killed(client: Client, gate: Gate) -> None:
    counter = client.actor(Counter)
    pid = counter.pid().result(timeout=60)
    futures = [counter.wait(*gate.paths), *(counter.add() for _ in range(100))]
    wait_until(lambda: gate.waiting_pids)
    os.kill(pid, signal.SIGKILL)
    for future in futures:
        with pytest.raises(ActorDiedError, match="has died") as caught:
            future.result(timeout=60)
        assert caught.value.certificates[0]["pid"] == pid
    with pytest.raises(ActorDiedError, match="has died"):
        counter.add().result(timeout=60)
    assert client.actor(Counter).add().result(timeout=60) == 1


def test_an_idle_actor_whose_process_is_killed(client: Client) -> None:
    counter = client.actor(Counter)
    os.kill(counter.pid().result(timeout=60), signal.SIGKILL)
    with pytest.raises(ActorDiedError, match="has died"):
        counter.sleep(60).result(timeout=60)


def test_kill_ends_running_and_queued_calls(client: Client, gate: Gate) -> None:
    counter = client.actor(Counter)
    futures = [counter.wait(*gate.paths), counter.add()]
    wait_until(lambda: gate.waiting_pids)
    counter.kill()
    for future in [*futures, counter.add()]:
        with pytest.raises(ActorDiedError, match="was killed"):
            future.result(timeout=60)
    wait_until(lambda: not psutil.pid_exists(gate.waiting_pids[0]))


def test_calls_can_be_cancelled(client: Client, gate: Gate) -> None:
    counter = client.actor(Counter)
    running, queued, last = counter.wait(*gate.paths), counter.add(100), counter.add()
    wait_until(lambda: gate.waiting_pids)
    assert queued.cancel() and queued.cancelled()
    assert running.cancel()
    assert last.result(timeout=60) == 1


def test_an_actor_that_waits_for_a_worker_can_be_cancelled(single_client: Client, gate: Gate) -> None:
    running = single_client.submit(functions.wait_at_gate, *gate.paths, 1)
    wait_until(lambda: gate.waiting_pids)
    counter = single_client.actor(Counter)
    future = counter.add()
    counter.kill()
    with pytest.raises(ActorDiedError):
        future.result(timeout=60)
    gate.open()
    assert running.result(timeout=60) == 1


def test_an_actor_ends_with_its_client(combo: SchedulerClusterCombo, client: Client) -> None:
    with Client(combo.get_address()) as other:
        counter = other.actor(Counter)
        pid = counter.pid().result(timeout=60)
    wait_until(lambda: not psutil.pid_exists(pid))
    assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_clear_ends_actors(client: Client) -> None:
    counter = client.actor(Counter)
    pid = counter.pid().result(timeout=60)
    client.clear()
    wait_until(lambda: not psutil.pid_exists(pid))
    with pytest.raises(ActorDiedError):
        counter.add().result(timeout=60)


# ---- slots -----------------------------------------------------------------------------------------------------------


def test_an_actor_occupies_a_worker(single_client: Client) -> None:
    counter = single_client.actor(Counter)
    assert counter.add().result(timeout=60) == 1
    task = single_client.submit(functions.square, 3)
    assert [counter.add().result(timeout=60) for _ in range(50)] == list(range(2, 52))
    assert not task.done()
    del counter
    gc.collect()
    assert task.result(timeout=60) == 9


def test_more_actors_than_workers_wait_for_their_turn(single_client: Client) -> None:
    counters = [single_client.actor(Counter, number) for number in range(4)]
    futures = [counter.add() for counter in counters]
    for number in range(4):
        assert futures[number].result(timeout=60) == number + 1
        counters[number].kill()


def test_monitors_show_an_actor_as_a_running_task(client: Client) -> None:
    counter = client.actor(Counter)
    counter.add().result(timeout=60)
    wait_until(lambda: client.cluster_info().tasks.running == 1)


def add_once(counter: ActorHandle[Counter]) -> int:
    return int(counter.add().result(timeout=60))


def sum_by_actor(summer: Any, levels: int) -> int:
    """The actor runs tasks of its own, for a task that is nested so deep."""
    with Client() as client:
        if levels:
            return client.submit(sum_by_actor, summer, levels - 1).result(timeout=60)
        return int(summer.sum_of_squares(3).result(timeout=60))


class Summer:
    def sum_of_squares(self, count: int) -> int:
        with Client() as client:
            return sum(client.map(functions.square, range(count)))


def test_an_actor_starts_before_more_tasks_than_workers_that_wait_for_it(client: Client, gate: Gate) -> None:
    held = [client.submit(functions.wait_at_gate, *gate.paths) for _ in range(client.n_workers)]
    wait_until(lambda: len(gate.waiting_pids) == len(held))
    counter = client.actor(Counter)
    futures = [client.submit_verbose(add_once, (counter,), {}, priority=1) for _ in range(40)]
    gate.open()
    assert sorted(future.result(timeout=120) for future in futures) == list(range(1, 41))


def test_an_actor_runs_tasks_of_its_own_for_a_deeply_nested_task(client: Client) -> None:
    summer = client.actor(Summer)
    assert client.submit(sum_by_actor, summer, 3).result(timeout=120) == 5


def add_value_of_task(counter: ActorHandle[Counter]) -> int:
    """The task that the call needs is deeper than this one."""
    with Client() as client:
        return int(counter.add(client.submit(functions.square, 2)).result(timeout=60))


def test_actors_that_occupy_the_workers_of_a_host_hold_up_nothing_that_others_wait_for() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2), start_cluster(address, "-n", 2):
        with Client(address) as first, Client(address) as second, Client(address) as third:
            clients = (first, second, third)
            wait_until(lambda: first.n_workers == 4)
            for _ in range(3):
                counters = [client.actor(Counter) for client in clients]
                pairs = list(zip(clients, counters, strict=True))
                own = [counter.add(client.submit(functions.square, 2)) for client, counter in pairs]
                futures = [client.submit(add_value_of_task, counter) for client, counter in pairs * 4]
                assert max(future.result(timeout=60) for future in (*own, *futures)) == 20
                del counters, own, pairs, futures


def test_an_actor_does_not_overtake_a_task_whose_result_its_calls_need(single_client: Client) -> None:
    value = single_client.submit(functions.spin_and_square, 3, 0.2)
    counter = single_client.actor(Counter)
    assert counter.add(value).result(timeout=60) == 9


# ---- lost peers ------------------------------------------------------------------------------------------------------


def test_a_lost_host_ends_its_actors(tmp_path: Path) -> None:
    address = free_address()
    with start_scheduler(address), Client(address) as client:
        with start_cluster(address, "-n", 1) as cluster:
            counter = client.actor(Counter)
            futures = [counter.add(), counter.sleep(60), counter.add()]
            assert futures[0].result(timeout=60) == 1
            cluster.kill()
            for future in futures[1:]:
                with pytest.raises(ActorDiedError, match="has died"):
                    future.result(timeout=40)
        with start_cluster(address, "-n", 1):
            with pytest.raises(ActorDiedError):
                counter.add().result(timeout=60)
            assert client.actor(Counter).add().result(timeout=60) == 1


def test_a_restart_of_the_scheduler_amid_a_thousand_calls() -> None:
    address = free_address()
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 2), Client(address) as client:
            counter = client.actor(Counter)
            pid = counter.pid().result(timeout=60)
            futures = []
            for number in range(1000):
                futures.append(counter.add() if number % 3 else counter.add(number=1))
                if number == 500:
                    wait_until(futures[100].done)
                    first.kill()
            with start_scheduler(address):
                futures += [counter.add() for _ in range(100)]
                assert [future.result(timeout=60) for future in futures] == list(range(1, 1101))
                assert counter.pid().result(timeout=60) == pid
    finally:
        first.__exit__()


def test_an_idle_actor_survives_restarts_of_the_scheduler() -> None:
    address = free_address()
    scheduler = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 1), Client(address) as client:
            counter = client.actor(Counter)
            for number in range(1, 4):
                assert counter.add().result(timeout=40) == number
                scheduler.kill()
                scheduler.__exit__()
                scheduler = start_scheduler(address)
            assert counter.get().result(timeout=40) == 3
    finally:
        scheduler.__exit__()


def test_an_actor_and_its_calls_wait_for_a_host_that_comes_late(gate: Gate) -> None:
    """The time for which an ordinary task waits is over before, so that one starts again at another host."""
    address = free_address()
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 2) as late, Client(address) as client, Client(address) as other:
            counter = client.actor_verbose(Counter, name="awaited")
            pid = counter.pid().result(timeout=60)
            futures = [counter.wait(*gate.paths), *[counter.add() for _ in range(5)]]
            task = client.submit(functions.wait_at_gate, *gate.paths, "value")
            wait_until(lambda: len(gate.waiting_pids) == 2)
            borrowed = other.get_actor("awaited")
            with start_cluster(address, "-n", 1):
                wait_until(lambda: client.n_workers == 3)
                late.signal(signal.SIGSTOP)
                first.kill()
                with start_scheduler(address):
                    futures += [borrowed.add() for _ in range(5)]
                    wait_until(lambda: len(gate.waiting_pids) == 3)
                    late.signal(signal.SIGCONT)
                    gate.open()
                    assert [future.result(timeout=60) for future in futures] == list(range(1, 12))
                    assert counter.pid().result(timeout=60) == pid
                    assert task.result(timeout=60) == "value"
    finally:
        first.__exit__()


def test_an_actor_that_dies_while_the_scheduler_is_away() -> None:
    address = free_address()
    first = start_scheduler(address)
    try:
        with start_cluster(address, "-n", 1), Client(address) as client:
            counter = client.actor(Counter)
            pid = counter.pid().result(timeout=60)
            first.kill()
            os.kill(pid, signal.SIGKILL)
            futures = [counter.add() for _ in range(10)]
            with start_scheduler(address):
                for future in futures:
                    with pytest.raises(ActorDiedError):
                        future.result(timeout=60)
    finally:
        first.__exit__()
