"""What is not sent to tasks as it is: locks, and proxies of managers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copyreg
import multiprocessing
import pickle
import threading
from collections.abc import Iterator
from functools import partial
from multiprocessing import managers
from typing import Any

import cloudpickle
import pytest

from scaler import Serializer
from scaler.client.calls import Encoder
from scaler.client.lock import Lock
from scaler.client.reducers import ArgumentReducers, name_of_dask_lock, reduce_dask_lock
from scaler.client.serializer import DefaultSerializer
from scaler_protocol.objects import proxies
from scaler_worker.worker_process import serialization

dask_utils = pytest.importorskip("dask.utils")
task_spec = pytest.importorskip("dask._task_spec")


class Pickling(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return pickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        return pickle.loads(payload)


class Cloudpickling(Pickling):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return cloudpickle.dumps(obj)


class Derived(dask_utils.SerializableLock):  # type: ignore[misc, name-defined]
    pass


class Target:
    def __init__(self, lock: Any) -> None:
        self.lock = lock


def sent(value: Any, serializer: Any = DefaultSerializer) -> Any:
    return pickle.loads(bytes(Encoder(serializer).encode(value)))


# ---- Dask's locks ----------------------------------------------------------------------------------------------------

PLACES = {
    "alone": lambda lock: lock,
    "list": lambda lock: [[lock]],
    "dict": lambda lock: {"a": {"b": (lock,)}},
    "partial": lambda lock: partial(max, lock, key=lock),
    "attribute": Target,
    "closure": lambda lock: lambda: lock,
    "task": lambda lock: task_spec.Task("key", max, task_spec.List([lock]), key=task_spec.Task("k", Target, lock)),
}


def locks_in(value: Any, found: list[Any] | None = None) -> list[Any]:
    """All that are reached through containers, attributes, closures and Dask's tasks."""
    found = [] if found is None else found
    if isinstance(value, (Lock, dask_utils.SerializableLock)):
        found.append(value)
    elif isinstance(value, dict):
        locks_in(list(value.values()), found)
    elif isinstance(value, (list, tuple, task_spec.NestedContainer)):
        for item in value if isinstance(value, (list, tuple)) else value.args:
            locks_in(item, found)
    elif isinstance(value, partial):
        locks_in([value.args, value.keywords], found)
    elif isinstance(value, task_spec.Task):
        locks_in([value.args, value.kwargs], found)
    elif isinstance(value, Target):
        locks_in(value.lock, found)
    elif getattr(value, "__closure__", None):
        locks_in([cell.cell_contents for cell in value.__closure__], found)
    return found


@pytest.mark.parametrize("kind", [dask_utils.SerializableLock, Derived])
@pytest.mark.parametrize("place", PLACES)
def test_a_lock_of_dask_arrives_as_one_of_the_cluster(place: str, kind: Any) -> None:
    found = locks_in(sent(PLACES[place](kind("token"))))
    assert found and all(type(lock) is Lock for lock in found)
    assert {lock.name for lock in found} == {"dask.utils.SerializableLock token"}


@pytest.mark.parametrize("serializer", [Pickling, Cloudpickling])
def test_serializers_of_users_send_locks_of_the_cluster_too(serializer: type[Serializer]) -> None:
    lock = dask_utils.SerializableLock("token")
    assert [type(each) for each in locks_in(sent([lock, {"a": lock}], serializer))] == [Lock, Lock]


def test_a_serializer_of_a_user_leaves_the_default_one_as_it_was() -> None:
    lock = dask_utils.SerializableLock("token")
    sent(lock, Pickling)
    assert dask_utils.SerializableLock in copyreg.dispatch_table
    reducers = ArgumentReducers(cloudpickle.Pickler.dispatch_table, is_private=False)
    assert reducers[dask_utils.SerializableLock] is reduce_dask_lock


def test_elsewhere_dask_s_locks_are_pickled_as_ever() -> None:
    lock = dask_utils.SerializableLock("token")
    sent(lock, Pickling)
    for dumps in (pickle.dumps, cloudpickle.dumps):
        assert pickle.loads(dumps(lock)).lock is lock.lock
    assert pickle.loads(serialization.dumps([lock]))[0].lock is lock.lock  # a result


def test_names_of_locks_follow_their_tokens() -> None:
    assert name_of_dask_lock(("a", 1)) == name_of_dask_lock(("a", 1)) != name_of_dask_lock("('a', 1")
    long = name_of_dask_lock("x" * 5000)
    assert len(long) < 100 and long == name_of_dask_lock("x" * 5000) != name_of_dask_lock("y" * 5000)
    assert name_of_dask_lock("\ud800")


@pytest.mark.parametrize("lock", [threading.Lock(), threading.RLock(), threading.Condition(), threading.Event()])
def test_a_lock_of_threads_is_refused_with_a_reason(lock: Any) -> None:
    with pytest.raises(TypeError, match=r"excludes threads of one process only. Use client.lock\(name\)"):
        Encoder(DefaultSerializer).encode([{"lock": lock}])


async def nothing() -> None: ...


def test_a_future_of_others_is_refused_with_a_reason() -> None:
    loop, coroutine = asyncio.new_event_loop(), nothing()
    try:
        for future, reason in [
            (concurrent.futures.Future(), r"a 'Future', which belongs to its process. Pass its result\(\)"),
            (loop.create_future(), "a 'Future', which belongs to its process. Pass what awaiting it returns"),
            (coroutine, "a 'coroutine', which belongs to its process. Pass what awaiting it returns"),
        ]:
            with pytest.raises(TypeError, match=reason):
                Encoder(DefaultSerializer).encode([{"future": future}])
    finally:
        coroutine.close()
        loop.close()


# ---- proxies ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def manager() -> Iterator[managers.SyncManager]:
    with multiprocessing.Manager() as running:
        yield running


def test_a_proxy_travels_with_the_key_of_its_manager_where_nobody_else_can_read_it(
    manager: managers.SyncManager,
) -> None:
    proxy = manager.list([1, 2])
    payload = bytes(Encoder(DefaultSerializer, is_private=True).encode({"proxy": proxy}))
    assert bytes(proxy._authkey) in payload  # type: ignore[attr-defined]
    assert list(pickle.loads(payload)["proxy"]) == [1, 2]


@pytest.mark.parametrize("way", ["argument", "result", "public"])
def test_a_proxy_does_not_travel_where_others_can_read_it(manager: managers.SyncManager, way: str) -> None:
    ways = {
        "argument": Encoder(DefaultSerializer, is_private=False).encode,
        "result": serialization.dumps,
        "public": DefaultSerializer.serialize,
    }
    with pytest.raises(TypeError, match="Cannot send a ListProxy of a multiprocessing.Manager: its key would be sent"):
        ways[way]([manager.list()])


@pytest.mark.parametrize(
    ("address", "has_keys", "expected"),
    [
        ("tcp://127.0.0.1:1", False, True),
        ("tcp://localhost:1", False, True),
        ("ipc:///tmp/x", False, True),
        ("tcp://10.0.0.1:1", False, False),
        ("tcp://10.0.0.1:1", True, True),
    ],
)
def test_what_is_private(monkeypatch: pytest.MonkeyPatch, address: str, has_keys: bool, expected: bool) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    if has_keys:
        monkeypatch.setenv("SCALER_KEYS", "/somewhere")
    assert proxies.is_private(address) is expected


def test_in_a_task_the_process_takes_the_key_over(
    manager: managers.SyncManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = manager.list()
    rebuild, arguments = proxies.reduce_proxy(proxy)
    process = multiprocessing.current_process()
    key = bytes(process.authkey)
    monkeypatch.setattr(process, "authkey", b"another")
    rebuild(*arguments)
    assert process.authkey == b"another"
    monkeypatch.setenv("SCALER_PARENT", "00:1:1:0")
    rebuild(*arguments)
    assert process.authkey == key


def test_what_a_proxy_stands_for_may_be_gone(manager: managers.SyncManager) -> None:
    rebuild, arguments = proxies.reduce_proxy(manager.list())
    with pytest.raises(ReferenceError, match="The list that a proxy refers to no longer exists"):
        rebuild(*arguments)


def test_the_manager_may_be_gone() -> None:
    with multiprocessing.Manager() as manager:
        rebuild, arguments = proxies.reduce_proxy(manager.dict())
    with pytest.raises(ConnectionError, match="The manager of a dict proxy cannot be reached"):
        rebuild(*arguments)


def test_functions_keep_the_names_of_their_files() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def outer():\n    return lambda: 1 / 0", "/home/me/analysis.py", "exec"), names)
    sent = DefaultSerializer.serialize(names["outer"])
    outer = pickle.loads(sent)
    assert {outer.__code__.co_filename, outer().__code__.co_filename} == {"/home/me/analysis.py"}
    assert sent == DefaultSerializer.serialize(names["outer"])
