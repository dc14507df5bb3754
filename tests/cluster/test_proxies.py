"""Proxies of ``multiprocessing.Manager`` as arguments and results of tasks on the manager's machine."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from multiprocessing.managers import BaseManager, SyncManager
from typing import Any

import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError
from tests.support import functions


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def add(self, number: int) -> int:
        self.value += number
        return self.value


class CounterManager(BaseManager):
    pass


CounterManager.register("Counter", Counter)


@pytest.fixture(scope="module")
def manager() -> Iterator[SyncManager]:
    with multiprocessing.Manager() as running:
        yield running


def use_lock(lock: Any) -> str:
    with lock:
        return "locked"


def use_joinable(queue: Any) -> Any:
    value = queue.get(timeout=60)
    queue.task_done()
    queue.put(value + 1)
    return value


def use_condition(condition: Any) -> bool:
    with condition:
        condition.notify_all()
        return bool(condition.wait(timeout=0.01))


def change_value(value: Any) -> Any:
    value.value += 1
    return value.value


def change_namespace(namespace: Any) -> Any:
    namespace.x += 1
    return namespace.x


def make_queue(manager: SyncManager) -> Any:
    queue = manager.Queue()
    queue.put(5)
    return queue


def make_joinable(manager: SyncManager) -> Any:
    queue = manager.JoinableQueue()
    queue.put(5)
    return queue


USES: dict[str, tuple[Callable[[SyncManager], Any], Callable[[Any], Any], Any]] = {
    "list": (lambda manager: manager.list([1, 2]), lambda proxy: (proxy.append(3), list(proxy))[1], [1, 2, 3]),
    "dict": (
        lambda manager: manager.dict(a=1),
        lambda proxy: (proxy.update(b=2), dict(proxy.items()))[1],
        {"a": 1, "b": 2},
    ),
    "Namespace": (lambda manager: manager.Namespace(x=1), change_namespace, 2),
    "Value": (lambda manager: manager.Value("i", 4), change_value, 5),
    "Array": (lambda manager: manager.Array("i", [4, 5]), lambda proxy: list(proxy), [4, 5]),
    "Queue": (make_queue, lambda proxy: proxy.get(timeout=60), 5),
    "JoinableQueue": (make_joinable, use_joinable, 5),
    "Event": (lambda manager: manager.Event(), lambda proxy: (proxy.set(), proxy.is_set())[1], True),
    "Lock": (lambda manager: manager.Lock(), use_lock, "locked"),
    "RLock": (lambda manager: manager.RLock(), use_lock, "locked"),
    "Semaphore": (lambda manager: manager.Semaphore(2), use_lock, "locked"),
    "BoundedSemaphore": (lambda manager: manager.BoundedSemaphore(2), use_lock, "locked"),
    "Condition": (lambda manager: manager.Condition(), use_condition, False),
    "Barrier": (lambda manager: manager.Barrier(1), lambda proxy: proxy.wait(10), 0),
    "Pool": (lambda manager: manager.Pool(1), lambda proxy: proxy.map(abs, [-1, 2]), [1, 2]),
}


@pytest.mark.parametrize("kind", USES)
def test_every_kind_of_proxy_is_used_in_tasks(client: Client, manager: SyncManager, kind: str) -> None:
    make, use, expected = USES[kind]
    proxy = make(manager)
    assert client.submit(use, proxy).result(50) == expected
    if kind == "Pool":
        proxy.terminate()


def test_proxies_inside_of_proxies_and_of_containers(client: Client, manager: SyncManager) -> None:
    def change(outer: Any, more: dict[str, Any]) -> int:
        outer[0].append(1)
        outer[1]["a"] = 2
        more["list"][0].append(3)
        return len(outer)

    outer, inner = manager.list([manager.list(), manager.dict()]), manager.list()
    assert client.submit(change, outer, {"list": [inner]}).result(50) == 2
    assert (list(outer[0]), dict(outer[1]), list(inner)) == ([1], {"a": 2}, [3])


def test_many_tasks_share_one_object(client: Client, manager: SyncManager) -> None:
    def add(queue: Any, lock: Any, value: Any, number: int) -> None:
        queue.put(number)
        with lock:
            value.value += number

    queue, lock, value = manager.Queue(), manager.Lock(), manager.Value("i", 0)
    client.starmap(add, [(queue, lock, value, number) for number in range(50)])
    assert value.value == sum(range(50))
    assert sorted(queue.get() for _ in range(50)) == list(range(50))


def test_the_application_is_told_of_progress_by_a_queue(client: Client, manager: SyncManager) -> None:
    def work(queue: Any, gate: Any) -> str:
        queue.put("started")
        gate.wait(50)
        return "ended"

    queue, gate = manager.Queue(), manager.Event()
    future = client.submit(work, queue, gate)
    assert queue.get(timeout=50) == "started" and not future.done()
    gate.set()
    assert future.result(50) == "ended"


def test_a_proxy_comes_back_as_a_result(client: Client, manager: SyncManager) -> None:
    numbers = manager.list([1])
    returned, again = client.submit(lambda proxy: (proxy, {"again": proxy}), numbers).result(50)
    returned.append(2)
    assert list(again["again"]) == list(numbers) == [1, 2]


def test_managers_of_users(client: Client) -> None:
    with CounterManager() as manager:
        counter = manager.Counter()  # type: ignore[attr-defined]
        assert sorted(client.map(lambda proxy: proxy.add(1), [counter] * 20)) == list(range(1, 21))


def test_two_managers_with_keys_of_their_own(client: Client) -> None:
    context = multiprocessing.get_context()
    managers = [SyncManager(authkey=key, ctx=context) for key in (b"one", b"two")]
    for manager in managers:
        manager.start()
    try:
        lists = [manager.list() for manager in managers]
        for _ in range(3):
            client.submit(lambda first, second: (first.append(1), second.append(2)), *lists).result(50)
        assert [list(each) for each in lists] == [[1] * 3, [2] * 3]
    finally:
        for manager in managers:
            manager.shutdown()


def test_a_manager_with_a_port(client: Client) -> None:
    with SyncManager(("127.0.0.1", 0)) as manager:
        numbers = manager.list()
        client.map(lambda proxy, number: proxy.append(number), [numbers] * 5, range(5))
        assert sorted(numbers) == list(range(5))


def test_nested_tasks_pass_proxies_on(client: Client, manager: SyncManager) -> None:
    def parent(client: Client, numbers: Any) -> None:
        client.map(lambda proxy, number: proxy.append(number), [numbers] * 5, range(5))

    numbers = manager.list()
    client.submit(parent, client, numbers).result(50)
    assert sorted(numbers) == list(range(5))


def test_graphs_and_sent_objects(client: Client, manager: SyncManager) -> None:
    numbers = manager.list([3])
    reference = client.send_object(numbers)
    assert client.submit(list, reference).result(50) == [3]
    assert client.get({"proxy": numbers, "list": (list, "proxy")}, ["list"]) == {"list": [3]}


def test_what_is_gone_says_so(client: Client, manager: SyncManager) -> None:
    numbers = manager.list()
    future = client.submit(functions.identity, 1)
    future.result(50)
    payload_of_a_lost_one = client.send_object(numbers)
    del numbers
    with pytest.raises(DeserializeObjectError, match="The list that a proxy refers to no longer exists. Keep"):
        client.submit(list, payload_of_a_lost_one).result(50)
    with multiprocessing.Manager() as other:
        orphan = other.list()
    with pytest.raises(DeserializeObjectError, match="The manager of a list proxy cannot be reached"):
        client.submit(list, orphan).result(50)


def test_locks_of_multiprocessing_itself_are_not_sent(client: Client) -> None:
    for lock in (multiprocessing.Lock(), threading.Lock()):
        with pytest.raises((RuntimeError, TypeError)):
            client.submit(functions.identity, lock)
