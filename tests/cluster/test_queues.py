"""Queues of the cluster: items go from any process to any other, once and in order."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
from pathlib import Path

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from scaler.client.queue import Queue
from scaler.utility.exceptions import ProcessorDiedError, ScalerError
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.killed_waiter import kill_a_waiter
from tests.support.ports import free_address
from tests.support.waiting import wait_until


def take_until_none(items: Queue) -> list[int]:
    return list(iter(items.get, None))


def produce(items: Queue, first: int, stop: int) -> None:
    for item in range(first, stop):
        items.put(item)


def test_it_is_used_as_a_queue_of_the_standard_library_is(client: Client) -> None:
    items, standard = client.queue("plain", 2), queue.Queue(2)
    for each in (items, standard):
        each.put("a")
        each.put("b", timeout=1)
        assert each.full() and not each.empty() and each.qsize() == 2
        for arguments in ({"block": False}, {"timeout": 0.01}, {"timeout": 0}):
            with pytest.raises(queue.Full):
                each.put("c", **arguments)
        with pytest.raises(ValueError, match="non-negative"):
            each.put("c", timeout=-1)
        assert each.get() == "a" and each.get_nowait() == "b" and each.empty()
        for arguments in ({"block": False}, {"timeout": 0.01}, {"timeout": 0}):
            with pytest.raises(queue.Empty):
                each.get(**arguments)
        with pytest.raises(ValueError, match="non-negative"):
            each.get(timeout=-1)
        each.put_nowait("d")
        assert each.qsize() == 1
    assert repr(items) == "Queue('plain', 2)" and repr(client.queue("x")) == "Queue('x')" and items.maximum_size == 2


@pytest.mark.parametrize(("size", "error"), [(1.5, TypeError), (2**32, ValueError)])
def test_sizes(client: Client, size: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        client.queue("size", size)
    assert client.queue("size", -1).maximum_size == 0


def test_tasks_and_the_application_exchange_items(client: Client) -> None:
    items = client.queue("exchange", 10)
    producers = [client.submit(produce, items, start, start + 100) for start in (0, 100)]
    consumer = client.submit(take_until_none, items)
    mine = [items.get(timeout=50) for _ in range(20)]
    for producer in producers:
        producer.result(50)
    items.put(None)
    theirs = consumer.result(50)
    assert sorted(mine + theirs) == list(range(200))
    for part in (mine, theirs):
        assert [item for item in part if item < 100] == sorted(item for item in part if item < 100)


def test_a_task_that_waits_lends_its_worker(single_client: Client) -> None:
    items = single_client.queue("one worker")
    futures = [single_client.submit(items.get) for _ in range(3)]
    wait_until(lambda: "waits for the queue 'one worker'." in single_client.explain(futures[0]))
    single_client.submit(produce, items, 0, 3).result(50)
    assert sorted(future.result(50) for future in futures) == [0, 1, 2]


def test_two_sizes_and_items_that_are_too_large(client: Client) -> None:
    client.queue("sizes", 2).put(1)
    with pytest.raises(
        ScalerError, match="Cannot use the queue 'sizes': Others use it with the maximum size 2, not 3."
    ):
        client.queue("sizes", 3).get()
    with pytest.raises(ValueError, match=r"client.send_object\(\)"):
        client.queue("sizes", 2).put(bytes(300_000))


def test_items_outlive_the_task_that_put_them(client: Client) -> None:
    def put_and_die(items: Queue) -> None:
        items.put("survives")
        os.kill(os.getpid(), signal.SIGKILL)

    items = client.queue("outlives")
    with pytest.raises(ProcessorDiedError):
        client.submit_verbose(put_and_die, (items,), rerun=False).result(50)
    assert items.get(timeout=50) == "survives"


@pytest.mark.parametrize("how", ["dies", "cancelled"])
def test_a_task_that_ends_while_it_waits_takes_nothing(client: Client, tmp_path: Path, how: str) -> None:
    def note_and_get(items: Queue, path: str) -> str:
        functions.note(path, str(os.getpid()))
        return items.get()

    items, path = client.queue(how), str(tmp_path / "pid")
    future = client.submit_verbose(note_and_get, (items, path), rerun=False)
    wait_until(lambda: "waits for the queue" in client.explain(future))
    if how == "dies":
        os.kill(int(functions.notes(path)[0]), signal.SIGKILL)
    else:
        future.cancel()
    wait_until(future.done)
    probe = client.submit(functions.square, 3)
    assert probe.result(50) == 9
    items.put("for the next")
    assert items.get(timeout=50) == "for the next"


def test_a_queue_is_forgotten_with_the_last_application(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address()) as one:
        one.queue("forgotten", 1).put(1)
    with Client(combo.get_address()) as two:
        assert two.queue("forgotten", 2).empty()


def test_coroutines(combo: SchedulerClusterCombo, client: Client) -> None:
    async def body() -> None:
        async with AsyncClient(combo.get_address()) as async_client:
            items = async_client.queue("coroutines", 2)
            waiting = [asyncio.create_task(items.get()) for _ in range(3)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await items.get()
            await asyncio.to_thread(produce, client.queue("coroutines", 2), 0, 4)
            assert await asyncio.gather(*waiting) == [0, 1, 2]
            await items.put(4)
            assert await items.full() and await items.qsize() == 2
            with pytest.raises(asyncio.QueueFull):
                await items.put_nowait(5)
            assert [await items.get(), await items.get_nowait()] == [3, 4] and await items.empty()
            with pytest.raises(asyncio.QueueEmpty):
                await items.get_nowait()

    asyncio.run(asyncio.wait_for(body(), 50))


def test_cancelled_getters_lose_no_item(combo: SchedulerClusterCombo, client: Client) -> None:
    async def body() -> list[int]:
        taken = []
        async with AsyncClient(combo.get_address()) as async_client:
            items = async_client.queue("cancelled getters")
            producing = asyncio.create_task(asyncio.to_thread(produce, client.queue("cancelled getters"), 0, 300))
            while not producing.done() or not await items.empty():
                try:
                    taken.append(await asyncio.wait_for(items.get(), 0.0005))
                except TimeoutError:
                    pass
            await producing
        return taken

    items = client.queue("cancelled getters")
    taken = asyncio.run(asyncio.wait_for(body(), 50))
    assert sorted(taken + [items.get() for _ in range(items.qsize())]) == list(range(300))


def test_getters_wait_on_across_a_restart() -> None:
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 1), Client(address) as client:
        items = client.queue("restart")
        items.put("lost")
        other = client.queue("awaited")
        future = client.submit(other.get)
        wait_until(lambda: "waits for the queue" in client.explain(future))
        first.kill()
        with start_scheduler(address):
            assert items.empty()
            other.put(5)
            assert future.result(50) == 5


def test_a_client_that_is_killed_while_it_waits_takes_nothing(combo: SchedulerClusterCombo, client: Client) -> None:
    kill_a_waiter(client, combo.get_address(), "queue", "a killed client", "get", "qsize")
    items = client.queue("a killed client")
    items.put("item")
    assert items.get(timeout=20) == "item"
