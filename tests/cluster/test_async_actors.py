"""Actors of AsyncClient: calls are awaited, keep their order, and take futures."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

import psutil
import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from scaler.asynchronous.actors import AsyncActorHandle
from scaler.asynchronous.future import AsyncFuture
from scaler.client.actors import ActorHandle
from scaler.utility.exceptions import ActorDiedError
from tests.cluster.conftest import Gate
from tests.support import functions

T = TypeVar("T")


class Counter:
    def __init__(self, value: int = 0) -> None:
        self.value = value

    def add(self, number: int = 1) -> int:
        self.value += number
        return self.value

    def pid(self) -> int:
        return os.getpid()

    def fail(self) -> NoReturn:
        raise ValueError("this call failed")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def zeros(self, count: int) -> bytes:
        return bytes(count)


class Notes:
    def __init__(self) -> None:
        self.noted: list[object] = []

    def note(self, value: object) -> list[object]:
        self.noted.append(value)
        return self.noted


class Unmakeable:
    def __init__(self) -> None:
        raise ValueError("no instance")

    def method(self) -> None:
        pass


def add_to(counter: ActorHandle[Counter], number: int) -> int:
    return int(counter.add(number).result(timeout=60))


def run(combo: SchedulerClusterCombo, body: Callable[[AsyncClient], Awaitable[T]]) -> T:
    async def main() -> T:
        async with AsyncClient(combo.get_address()) as client:
            return await body(client)

    return asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            gc.collect()
            await asyncio.sleep(0.01)


async def until_gone(pid: int) -> None:
    await until(lambda: not psutil.pid_exists(pid))


def waiting_threads() -> list[threading.Thread]:
    """The threads in which calls of a client wait for an event loop."""
    return [each for each in threading.enumerate() if each.name == "scaler-async-call"]


def test_calls_are_awaited_and_keep_their_order(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        counter = await client.actor(Counter, 10)
        assert await asyncio.gather(*[counter.add(number) for number in range(5)]) == [10, 11, 13, 16, 20]
        assert await counter.add(number=5) == 25
        assert isinstance(counter.add(0), AsyncFuture)
        with pytest.raises(ValueError, match="this call failed"):
            await counter.fail()
        with pytest.raises(TypeError):
            counter.add(1, 2, 3)
        with pytest.raises(AttributeError, match="has no method 'absent'"):
            counter.absent  # noqa: B018
        with pytest.raises(TypeError, match="is not a class"):
            await client.actor(abs)  # type: ignore[arg-type]
        assert len(await counter.zeros(1_000_000)) == 1_000_000

    run(combo, body)


def test_futures_are_arguments_of_actors_and_the_other_way_round(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        counter = await client.actor(Counter, client.submit(functions.sleep_and_return, 0.05, 10))
        late = client.submit(functions.wait_at_gate, *gate.paths, 5)
        first = counter.add(late)
        second = counter.add(1)  # waits behind it
        after = client.submit(functions.add, second, 100)
        gate.open()
        assert [await after, await second, await first] == [116, 16, 15]
        large = counter.zeros(1_000_000)
        assert await client.submit(len, large) == 1_000_000 and not large.is_fetched

    run(combo, body)


class Held:
    """An argument that looks large, and is pickled when it may be."""

    nbytes = 1_000_000

    def __init__(self, may_be: threading.Event, reduced: object) -> None:
        self.may_be = may_be
        self.reduced = reduced

    def __reduce__(self) -> tuple[object, ...]:
        self.may_be.wait(60)
        return functions.identity, (self.reduced,)


def test_large_arguments_are_pickled_elsewhere_and_keep_their_order(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        notes = await client.actor(Notes)
        may_be = [threading.Event() for _ in range(3)]
        late = client.submit(functions.sleep_and_return, 0.01, "late")
        notes.note(0)
        first = notes.note(Held(may_be[0], 1))
        notes.note(2)
        second = notes.note(Held(may_be[1], 3))
        notes.note([late])
        lost = notes.note(Held(may_be[2], 4))
        unsendable = notes.note(Held(may_be[0], threading.Lock()))
        last = notes.note(5)
        assert "its arguments are being pickled" in await client.explain(first)
        may_be[1].set()  # the second is pickled before the first
        assert lost.cancel()
        may_be[2].set()
        may_be[0].set()
        assert await last == [0, 1, 2, 3, ["late"], 5] and (await second)[-1] == 3
        with pytest.raises(TypeError, match="cannot pickle"):
            await unsendable
        assert lost.cancelled()
        data = bytes(300_000)
        assert await notes.note(len(data)) == [0, 1, 2, 3, ["late"], 5, 300_000]

    run(combo, body)


def test_calls_behind_a_large_argument_end_with_their_client(combo: SchedulerClusterCombo) -> None:
    async def main() -> None:
        may_be = threading.Event()
        async with AsyncClient(combo.get_address()) as client:
            notes = await client.actor(Notes)
            calls = [notes.note(Held(may_be, 1)), notes.note(2)]
        may_be.set()
        for call in calls:
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(main())


def test_a_creation_that_is_cancelled_leaves_no_thread_and_no_actor(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        late = client.submit(functions.wait_at_gate, *gate.paths, 5)
        making = asyncio.create_task(client.actor(Counter, late))
        await until(lambda: waiting_threads() and late.held_call is None and bool(gate.waiting_pids))
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        await until(lambda: not waiting_threads())
        gate.open()
        assert await late == 5
        async with asyncio.timeout(60):
            while (await client.cluster_info()).tasks.running:
                await asyncio.sleep(0.01)

    run(combo, body)


def test_a_handle_is_an_argument_and_keeps_the_actor(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        counter = await client.actor(Counter)
        assert await client.submit(add_to, counter, 3) == 3
        pid = await counter.pid()
        calls = [client.submit(add_to, counter, 1) for _ in range(3)]
        del counter
        assert sorted(await asyncio.gather(*calls)) == [4, 5, 6]
        await until_gone(pid)

    run(combo, body)


def test_an_actor_ends_with_its_handle_or_when_it_is_killed(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        counter = await client.actor(Counter)
        pid = await counter.pid()
        last = counter.add(1)
        del counter
        assert await last == 1
        await until_gone(pid)
        killed = await client.actor(Counter)
        pid = await killed.pid()
        waiting = killed.sleep(60)
        killed.kill()
        with pytest.raises(ActorDiedError, match="was killed"):
            await waiting
        with pytest.raises(ActorDiedError):
            await killed.add()
        await until_gone(pid)
        unmakeable = await client.actor(Unmakeable)
        with pytest.raises(ActorDiedError, match="no instance") as caught:
            await unmakeable.method()
        assert isinstance(caught.value.__cause__, ValueError)

    run(combo, body)


def test_a_call_is_cancelled_with_the_coroutine_that_awaits_it(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        counter = await client.actor(Counter)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await counter.sleep(60)
        assert await asyncio.wait_for(counter.add(2), 60) == 2

    run(combo, body)


def test_names_and_options(combo: SchedulerClusterCombo, client: Client) -> None:
    async def body(mine: AsyncClient) -> None:
        counter = await mine.actor_verbose(Counter, (5,), name="async counter", max_concurrency=2)
        found = await mine.get_actor("async counter")
        assert isinstance(found, AsyncActorHandle) and await found.add() == 6
        assert client.get_actor("async counter").add().result(timeout=60) == 7
        with pytest.raises(ValueError, match="another actor has this name"):
            await mine.actor_verbose(Counter, name="async counter")
        with pytest.raises(ValueError, match="Cannot find an actor"):
            await mine.get_actor("nobody")
        others = client.actor_verbose(Counter, (70,), name="counter of a thread")
        assert await (await mine.get_actor("counter of a thread")).add() == 71
        assert repr(counter).startswith("<actor of Counter") and "add" in repr(counter.add)
        del others

    run(combo, body)


def test_a_handle_belongs_to_its_loop(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        counter = await client.actor(Counter)
        received = pickle.loads(pickle.dumps(counter))
        assert isinstance(received, ActorHandle)
        with pytest.raises(RuntimeError, match="belongs to the event loop"):
            await asyncio.to_thread(counter.add)
        with pytest.raises(RuntimeError, match="belongs to the event loop"):
            await asyncio.to_thread(counter.kill)

    run(combo, body)


def count_inside(total: int) -> int:
    async def main() -> int:
        async with AsyncClient() as client:
            counter = await client.actor(Counter)
            for _ in range(total):
                last = counter.add()
            return await last

    return asyncio.run(main())


def test_tasks_make_actors(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        assert await client.submit(count_inside, 10) == 10

    run(combo, body)
