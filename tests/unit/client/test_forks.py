"""A client that was made before a fork: the child is told so, whatever it calls, and the parent's goes on."""

from __future__ import annotations

import concurrent.futures
import math
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler import Client, ScalerFuture
from scaler.utility.exceptions import ClientQuitException
from tests.unit.client.fake_scheduler import FakeScheduler

LIMIT_SECONDS = 20


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with FakeScheduler() as running:
        yield running


def in_child(call: Callable[[], object]) -> Any:
    """What the call returns or raises in a forked child, which must not hang."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LIMIT_SECONDS)
        try:
            outcome: object = call()
        except BaseException as error:
            outcome = error
        try:
            os.write(writer, pickle.dumps(outcome))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    assert data, f"the child has ended with status {status}"
    return pickle.loads(data)


CALLS: dict[str, Callable[[Client, ScalerFuture[Any]], object]] = {
    "submit": lambda client, future: client.submit(math.sqrt, 4.0),
    "submit_verbose": lambda client, future: client.submit_verbose(math.sqrt, (4.0,)),
    "map": lambda client, future: client.map(math.sqrt, [4.0]),
    "starmap": lambda client, future: client.starmap(math.sqrt, [(4.0,)]),
    "imap": lambda client, future: list(client.imap(math.sqrt, [4.0])),
    "imap_unordered": lambda client, future: list(client.imap_unordered(math.sqrt, [4.0])),
    "get": lambda client, future: client.get({"a": 4.0, "b": (math.sqrt, "a")}, ["b"]),
    "send_object": lambda client, future: client.send_object([1]),
    "clear": lambda client, future: client.clear(),
    "cluster_info": lambda client, future: client.cluster_info(),
    "n_workers": lambda client, future: client.n_workers,
    "explain": lambda client, future: client.explain(future),
    "shutdown": lambda client, future: client.shutdown(),
    "result": lambda client, future: future.result(),
    "exception": lambda client, future: future.exception(5),
    "cancel": lambda client, future: future.cancel(),
    "callback": lambda client, future: future.add_done_callback(print),
    "wait": lambda client, future: concurrent.futures.wait([future], 5),
    "as_completed": lambda client, future: list(concurrent.futures.as_completed([future], 5)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_child_is_told(client: Client, scheduler: FakeScheduler, name: str) -> None:
    scheduler.hold.set()
    future = client.submit(math.sqrt, 4.0)
    error = in_child(lambda: CALLS[name](client, future))
    assert type(error) is ClientQuitException
    assert str(error).startswith("Cannot use this client here: it was created before its process was forked.")
    scheduler.hold.clear()
    assert future.result(10) == 2.0


def test_an_iterator_is_told_and_can_be_closed(client: Client, scheduler: FakeScheduler) -> None:
    results = client.imap(math.sqrt, iter([4.0, 9.0, 16.0]), buffer_size=2)
    assert next(results) == 2.0
    scheduler.hold.set()

    def close() -> str:
        results.close()
        return "closed"

    assert in_child(close) == "closed"
    assert type(in_child(lambda: list(results))) is ClientQuitException
    scheduler.hold.clear()
    assert list(results) == [3.0, 4.0]


def test_what_is_here_already_can_be_used(client: Client) -> None:
    future = client.submit(math.sqrt, 4.0)
    concurrent.futures.wait([future], 10)
    assert in_child(lambda: (future.done(), future.result(), future.exception(), future.cancelled())) == (
        True, 2.0, None, False,
    )  # fmt: skip


def test_leaving_is_harmless(client: Client) -> None:
    def leave() -> str:
        with client:
            pass
        client.disconnect()
        client.__del__()
        return "left"

    assert in_child(leave) == "left"
    assert client.submit(math.sqrt, 4.0).result(10) == 2.0


def test_a_client_of_its_own(client: Client, scheduler: FakeScheduler) -> None:
    def work() -> list[float]:
        with Client(scheduler.address) as own:
            return own.map(math.sqrt, [4.0, 9.0])

    assert in_child(work) == [2.0, 3.0]
    assert client.map(math.sqrt, [4.0]) == [2.0]


def test_locks_of_other_threads_are_not_waited_for(client: Client, scheduler: FakeScheduler) -> None:
    """The child has none of the threads that hold them."""
    from scaler.client import client as module

    scheduler.hold.set()
    future = client.submit(math.sqrt, 4.0)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with client._client_io.lock, module._opening:
            held.set()
            release.wait(LIMIT_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        for name in ("submit", "map", "wait", "callback", "cancel"):
            assert type(in_child(lambda: CALLS[name](client, future))) is ClientQuitException  # noqa: B023
        assert in_child(lambda: future.done()) is False
        assert in_child(lambda: module._opening.acquire(timeout=1))
    finally:
        release.set()
        thread.join()
