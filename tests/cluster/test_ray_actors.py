"""Actors as in tutorials of Ray, on Scaler."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from scaler import SchedulerClusterCombo
from scaler.compat import ray
from scaler.compat.ray.exceptions import RayActorError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.waiting import wait_until


@pytest.fixture
def cluster(combo: SchedulerClusterCombo) -> Iterator[None]:
    ray.init(combo.get_address())
    yield
    ray.shutdown()


@ray.remote
def square(number: int) -> int:
    return number * number


@ray.remote
class Process:
    """Says where it lives."""

    def pid(self) -> int:
        return os.getpid()


@ray.remote
class Counter:
    """Counts."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def increment(self, number: int = 1) -> int:
        self.value += number
        return self.value

    def squared(self, number: int) -> int:
        return ray.get(square.remote(number)) + self.value

    def later(self, number: int) -> dict[str, Any]:
        return {"ref": square.remote(number)}

    def values(self, refs: list[Any]) -> list[int]:
        return [ray.get(ref) for ref in refs]

    @ray.method(num_returns=2)
    def pair(self) -> tuple[int, int]:
        return self.value, -self.value

    def fail(self) -> None:
        raise ValueError("this call failed")

    def exit(self) -> None:
        os._exit(3)


@ray.remote
class Unmade:
    def __init__(self) -> None:
        raise KeyError("the constructor failed")

    def get(self) -> int:
        return 1


def test_a_counter(cluster: None) -> None:
    counter = Counter.remote(10)
    assert ray.get(counter.increment.remote()) == 11
    assert ray.get([counter.increment.remote(number) for number in range(5)]) == [11, 12, 14, 17, 21]
    assert ray.get(counter.increment.remote(number=9)) == 30


def test_references_as_arguments(cluster: None) -> None:
    counter = Counter.remote(square.remote(3))
    assert ray.get(counter.increment.remote(ray.put(1))) == 10
    assert ray.get(square.remote(counter.increment.remote())) == 121
    assert ray.get(counter.values.remote([square.remote(2), ray.put(5)])) == [4, 5]


def test_a_method_may_use_tasks_and_return_references(cluster: None) -> None:
    counter = Counter.remote(1)
    assert ray.get([counter.squared.remote(number) for number in (2, 3)]) == [5, 10]
    assert ray.get(ray.get(counter.later.remote(6))["ref"]) == 36


def test_several_values(cluster: None) -> None:
    counter = Counter.remote(4)
    assert ray.get(counter.pair.remote()) == [4, -4]
    assert ray.get(counter.pair.options(num_returns=1).remote()) == (4, -4)
    assert counter.increment.options(num_returns=0).remote() is None
    assert ray.get(counter.increment.remote()) == 6


def test_a_class_of_the_program_itself(cluster: None) -> None:
    base = 5

    class Adder:
        def add(self, number: int) -> int:
            return base + number

    assert ray.get(ray.remote(Adder).remote().add.remote(2)) == 7


@ray.remote
def increment_twice(counter: Any) -> list[int]:
    return ray.get([counter.increment.remote(), counter.increment.remote()])


def test_a_handle_as_an_argument(cluster: None) -> None:
    counter = Counter.remote()
    assert sorted(sum(ray.get([increment_twice.remote(counter) for _ in range(5)]), [])) == list(range(1, 11))
    assert ray.get(counter.increment.remote()) == 11


def test_failures(cluster: None) -> None:
    counter = Counter.remote()
    with pytest.raises(ValueError, match="this call failed") as caught:
        ray.get(counter.fail.remote())
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert ray.get(counter.increment.remote()) == 1
    with pytest.raises(ray.exceptions.RayActorError, match="has died"):
        ray.get(counter.exit.remote())
    with pytest.raises(ray.exceptions.ActorDiedError, match="has died"):
        ray.get(counter.increment.remote())
    with pytest.raises(ray.exceptions.RayActorError, match="the constructor failed"):
        ray.get(Unmade.remote().get.remote())


def test_kill(cluster: None) -> None:
    counter = Counter.remote()
    assert ray.get(counter.increment.remote()) == 1
    ray.kill(counter)
    with pytest.raises(ray.exceptions.RayActorError, match="was killed"):
        ray.get(counter.increment.remote())


def test_an_actor_ends_with_its_last_handle(cluster: None, combo: SchedulerClusterCombo) -> None:
    for number in range(5):
        assert ray.get(Counter.remote(number).increment.remote()) == number + 1
    from scaler.compat.ray.connecting import current_client

    wait_until(lambda: current_client().cluster_info().tasks.running == 0)


def test_options(cluster: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {"num_cpus": 1, "max_restarts": 0, "max_concurrency": 1, "lifetime": None, "name": None}
        assert ray.get(Counter.options(**options).remote(1).increment.remote()) == 2
    with pytest.warns(UserWarning, match="runtime_env of remote classes has no effect"):
        Counter.options(runtime_env={})
    for option, value in (("max_task_retries", 1), ("concurrency_groups", {"io": 2}), ("lifetime", "detached")):
        with pytest.raises(NotImplementedError, match=f"Cannot use {option}="):
            Counter.options(**{option: value})
    with pytest.raises(ValueError, match="Cannot use the option 'max_restart'"):
        Counter.options(max_restart=1)
    with pytest.raises(ValueError, match="get_if_exists=True without a name"):
        Counter.options(get_if_exists=True)


@ray.remote(max_concurrency=3)
class Meeting:
    def __init__(self) -> None:
        self.barrier = threading.Barrier(3)

    def meet(self, number: int) -> int:
        self.barrier.wait(30)
        return number


def test_calls_that_run_at_the_same_time(cluster: None) -> None:
    meeting = Meeting.remote()
    assert ray.get([meeting.meet.remote(number) for number in range(3)], timeout=30) == [0, 1, 2]
    assert ray.get([meeting.meet.remote(number) for number in range(9)], timeout=30) == list(range(9))


@ray.remote
def increment_by_name(name: str) -> int:
    return int(ray.get(ray.get_actor(name).increment.remote()))


def test_named_actors(cluster: None) -> None:
    counter = Counter.options(name="named").remote(5)
    assert ray.get(ray.get_actor("named").increment.remote()) == 6
    assert ray.get(increment_by_name.remote("named")) == 7
    with pytest.raises(ValueError, match="another actor has this name"):
        Counter.options(name="named").remote(5)
    same = Counter.options(name="named", get_if_exists=True).remote(100)
    assert ray.get(same.increment.remote()) == 8
    with pytest.warns(UserWarning, match="namespace of get_actor"):
        ray.get_actor("named", namespace="other")
    ray.kill(counter)
    with pytest.raises(ValueError, match="Cannot find an actor named 'nobody'"):
        ray.get_actor("nobody")


def test_callers_that_need_the_same_actor_at_once_get_one(cluster: None) -> None:
    shared = Counter.options(name="shared", get_if_exists=True)
    begin = threading.Barrier(4)

    def increment() -> Any:
        begin.wait()
        counter = shared.remote()
        return counter, ray.get(counter.increment.remote())

    with ThreadPoolExecutor(4) as threads:
        made = [each.result() for each in [threads.submit(increment) for _ in range(4)]]
    assert sorted(value for _, value in made) == [1, 2, 3, 4]


def test_an_actor_restarts(cluster: None) -> None:
    host = Process.options(max_restarts=1).remote()
    pid = ray.get(host.pid.remote())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(host) not in (None, pid))


def pid_of(host: Any) -> int | None:
    try:
        return int(ray.get(host.pid.remote()))
    except RayActorError:
        return None


def test_mistakes(cluster: None) -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"Call Counter.remote\(\)"):
        Counter()
    with pytest.raises(TypeError, match=r"Call increment.remote\(\)"):
        counter.increment()
    with pytest.raises(AttributeError, match="no method 'decrement'"):
        counter.decrement  # noqa: B018
    with pytest.raises(TypeError, match="Cannot call"):
        counter.increment.remote(1, 2)
    with pytest.raises(TypeError, match="Cannot call"):
        Counter.remote(1, 2)
    with pytest.raises(ValueError, match="Use cancel"):
        ray.kill(square.remote(1))
    with pytest.raises(NotImplementedError, match="no_restart=False"):
        ray.kill(counter, no_restart=False)
    with pytest.raises(ValueError, match="The only option is num_returns"):
        counter.increment.options(max_task_retries=1)

    class Waiting:
        async def wait(self) -> None: ...

    with pytest.raises(NotImplementedError, match="is a coroutine function"):
        ray.remote(Waiting)


def test_a_failed_argument_of_the_constructor(cluster: None) -> None:
    with pytest.raises(ValueError, match="no argument"):
        Counter.remote(ray.remote(functions.fail).remote("argument"))


# ---- pools -----------------------------------------------------------------------------------------------------------


@ray.remote
class Doubler:
    def double(self, number: int) -> int:
        return 2 * number

    def hold(self, gate_paths: tuple[str, str]) -> str:
        return str(functions.wait_at_gate(*gate_paths, "held"))

    def fail(self, number: int) -> None:
        raise ValueError(f"number {number}")


def double(actor: Any, number: int) -> Any:
    return actor.double.remote(number)


def test_a_pool_maps_in_order_and_out_of_order(cluster: None) -> None:
    pool = ray.util.ActorPool([Doubler.remote(), Doubler.remote()])
    assert list(pool.map(double, range(7))) == [0, 2, 4, 6, 8, 10, 12]
    assert sorted(pool.map_unordered(double, range(7))) == [0, 2, 4, 6, 8, 10, 12]
    assert not pool.has_next() and list(pool.map(double, [])) == []
    with pytest.raises(StopIteration):
        pool.get_next()


def test_a_pool_gives_each_actor_one_call_at_a_time(cluster: None, gate: Gate) -> None:
    first, second = Doubler.remote(), Doubler.remote()
    pool = ray.util.ActorPool([first, second])
    pool.submit(lambda actor, paths: actor.hold.remote(paths), gate.paths)
    for number in range(3):
        pool.submit(double, number)
    assert not pool.has_free() and pool.pop_idle() is None
    assert [pool.get_next_unordered() for _ in range(3)] == [0, 2, 4]
    assert pool.has_free() and pool.pop_idle() is second
    pool.submit(double, 5)  # waits for the first actor
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0)
    with pytest.raises(ValueError, match="belongs to this pool"):
        pool.push(first)
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0, ignore_if_timedout=True)
    gate.open()
    assert pool.get_next() == 10 and not pool.has_next()
    pool.push(second)
    assert sorted(pool.map(double, [1, 2])) == [2, 4]


def test_a_pool_raises_the_exception_of_a_call(cluster: None) -> None:
    pool = ray.util.ActorPool([Doubler.remote()])
    for number in range(2):
        pool.submit(lambda actor, value: actor.fail.remote(value), number)
    with pytest.raises(ValueError, match="number 0"):
        pool.get_next()
    with pytest.raises(ValueError, match="number 1"):
        pool.get_next_unordered()
    pool.submit(double, 4)
    assert pool.get_next(timeout=30) == 8


def test_mistakes_with_pools(cluster: None) -> None:
    with pytest.raises(TypeError, match="not the handle of an actor"):
        ray.util.ActorPool([square])
    empty = ray.util.ActorPool([])
    empty.submit(double, 1)
    with pytest.raises(ValueError, match="has no actor"):
        empty.get_next()
    pool = ray.util.ActorPool([Doubler.remote()])
    with pytest.raises(TypeError, match="must return what .remote"):
        pool.submit(lambda actor, number: number, 1)
    assert list(pool.map(double, [3])) == [6]
