"""Events of the cluster: what is set in one process lets the others go on."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import time

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from scaler.client.event import Event
from scaler.utility.exceptions import ClientQuitException, ProcessorDiedError
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


def wait_for(event: Event) -> bool:
    return event.wait()


def test_it_is_used_as_an_event_of_threading_is(client: Client) -> None:
    event, other = client.event("plain"), client.event("plain")
    assert not event.is_set() and not event.wait(0) and not event.wait(0.05) and not event.wait(-1)
    event.set()
    assert other.is_set() and other.wait() and other.wait(0)
    other.clear()
    assert not event.is_set()


@pytest.mark.parametrize(("name", "error"), [("", ValueError), ("é" * 513, ValueError), (b"a", TypeError)])
def test_names(client: Client, name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="The name of an event"):
        client.event(name)


@pytest.mark.parametrize(("timeout", "error"), [("1", TypeError), (float("nan"), ValueError)])
def test_timeouts_that_are_no_durations(client: Client, timeout: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        client.event("timeouts").wait(timeout)


def test_tasks_wait_for_the_application_and_the_other_way_round(client: Client) -> None:
    started, go_on = client.event("started"), client.event("go on")

    def work(started: Event, go_on: Event) -> bool:
        started.set()
        return go_on.wait(50)

    future = client.submit(work, started, go_on)
    assert started.wait(50) and not future.done()
    go_on.set()
    assert future.result(50)


def test_while_tasks_wait_their_worker_runs_others(single_client: Client) -> None:
    event = single_client.event("one worker")
    waiting = [single_client.submit(wait_for, event) for _ in range(3)]
    assert single_client.submit(functions.square, 4).result(50) == 16
    wait_until(lambda: "waits for the event 'one worker'." in single_client.explain(waiting[0]))
    single_client.submit(event.set).result(50)
    assert all(future.result(50) for future in waiting)


def test_what_a_task_has_set_outlives_the_task_and_its_process(client: Client) -> None:
    def set_and_die(event: Event) -> None:
        event.set()
        os.kill(os.getpid(), signal.SIGKILL)

    event = client.event("set by a task")
    with pytest.raises(ProcessorDiedError):
        client.submit_verbose(set_and_die, (event,), rerun=False).result(50)
    assert event.is_set()


def test_an_event_is_forgotten_with_the_last_application(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address()) as one:
        one.event("forgotten").set()
        with Client(combo.get_address()) as two:
            assert two.event("forgotten").is_set()
        assert one.event("forgotten").is_set()
    with Client(combo.get_address()) as three:
        assert not three.event("forgotten").is_set()


def test_nested_clients_and_copies(client: Client) -> None:
    def set_by_name() -> None:
        with Client() as inner:
            inner.event("nested").set()

    event = client.event("nested")
    client.submit(set_by_name).result(50)
    copy = pickle.loads(pickle.dumps(event))
    assert copy.is_set() and repr(copy) == "Event('nested')"
    copy._client.disconnect()


def test_a_task_that_is_cancelled_while_it_waits(client: Client) -> None:
    event = client.event("cancelled")
    future = client.submit(wait_for, event)
    wait_until(lambda: "waits for the event" in client.explain(future))
    future.cancel()
    assert client.submit(functions.square, 3).result(50) == 9
    event.set()


def test_coroutines(combo: SchedulerClusterCombo, client: Client) -> None:
    async def body() -> None:
        async with AsyncClient(combo.get_address()) as async_client:
            event = async_client.event("coroutines")
            waiting = [asyncio.create_task(event.wait()) for _ in range(10)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await event.wait()
            assert not await event.is_set()
            await asyncio.to_thread(client.event("coroutines").set)
            assert await asyncio.gather(*waiting) == [True] * 10
            await event.clear()
            await event.set()
            assert client.event("coroutines").is_set() and repr(event) == "AsyncEvent('coroutines')"

    asyncio.run(asyncio.wait_for(body(), 50))


def test_a_client_that_has_left_has_no_events(combo: SchedulerClusterCombo) -> None:
    client = Client(combo.get_address())
    event = client.event("left")
    client.disconnect()
    with pytest.raises(ClientQuitException):
        event.set()


def test_what_is_set_and_who_waits_outlive_the_scheduler() -> None:
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 1), Client(address) as client:
        is_set, cleared, awaited = (client.event(name) for name in ("set", "cleared", "awaited"))
        is_set.set()
        cleared.set()
        cleared.clear()
        future = client.submit(wait_for, awaited)
        wait_until(lambda: "waits for the event" in client.explain(future))
        first.kill()
        with start_scheduler(address), Client(address) as other:
            assert other.event("set").wait(50) and not other.event("cleared").is_set()
            assert not future.done()
            other.event("awaited").set()
            assert future.result(50)


def test_a_round_trip_is_short(client: Client) -> None:
    event = client.event("fast")
    event.set()

    def seconds_of_twenty() -> float:
        started = time.perf_counter()
        for _ in range(20):
            event.is_set()
        return time.perf_counter() - started

    assert any(seconds_of_twenty() < 0.5 for _ in range(40))
