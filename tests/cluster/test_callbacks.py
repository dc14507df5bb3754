"""Callbacks that misbehave, and calls from where one cannot wait: a client goes on, and no future is lost."""

from __future__ import annotations

import concurrent.futures
import gc
import threading
import time

import pytest

from scaler import Client, ScalerFuture, SchedulerClusterCombo
from scaler.utility.exceptions import ClientQuitException
from tests.support.waiting import wait_until


def test_a_callback_that_exits_costs_nobody_else_anything(client: Client) -> None:
    def leave(_: object) -> None:
        raise SystemExit(3)

    ended, finished = threading.Semaphore(0), threading.Event()
    futures = [client.submit(time.sleep, 0.05) for _ in range(4)]
    for future in futures:
        future.add_done_callback(lambda _: ended.release())
        future.add_done_callback(leave)
    assert all(ended.acquire(timeout=30) for _ in futures)
    assert all(future.done() for future in futures)
    client.submit(abs, -1).add_done_callback(lambda _: finished.set())
    assert finished.wait(60)


def test_a_callback_waits_for_another_task_while_its_thread_waits_for_a_result(client: Client) -> None:
    results = []
    future = client.submit(time.sleep, 0.1)
    future.add_done_callback(lambda _: results.append(client.submit(abs, -7).result(60)))
    future.result(60)
    wait_until(lambda: results == [7])


def test_the_garbage_collector_cancels_in_the_middle_of_a_submit(client: Client) -> None:
    """An iterator that was left behind is closed wherever the collector happens to run."""
    thresholds = gc.get_threshold()
    gc.set_threshold(5, 2, 2)
    try:
        for number in range(300):
            left = client.imap(abs, range(3))
            next(left)
            cycle = [left]
            cycle.append(cycle)  # type: ignore[arg-type]
            del left, cycle
            assert client.submit(abs, -number).result(60) == number
    finally:
        gc.set_threshold(*thresholds)


def test_the_garbage_collector_submits_in_the_middle_of_a_submit(client: Client) -> None:
    class Parting:
        def __del__(self) -> None:
            parting.append(client.submit(abs, -100))

    parting: list[ScalerFuture] = []
    thresholds = gc.get_threshold()
    gc.set_threshold(5, 2, 2)
    try:
        futures = []
        for number in range(2000):
            cycle = [Parting()]
            cycle.append(cycle)  # type: ignore[arg-type]
            del cycle
            futures.append(client.submit(abs, -number))
    finally:
        gc.set_threshold(*thresholds)
    assert [future.result(60) for future in futures] == list(range(2000))
    gc.collect()
    assert len(parting) == 2000 and {future.result(60) for future in parting} == {100}


def test_a_submit_under_the_lock_comes_later_and_its_result_cannot_be_waited_for_there(client: Client) -> None:
    with client._client_io.lock:
        future = client.submit(abs, -7)
        with pytest.raises(RuntimeError, match="__del__"):
            future.result()
    assert future.result(60) == 7


def test_a_submit_under_the_lock_of_a_client_that_disconnects_ends(combo: SchedulerClusterCombo) -> None:
    client = Client(combo.get_address())
    with client._client_io.lock:
        future = client.submit(time.sleep, 60)
    client.disconnect()
    with pytest.raises((ClientQuitException, concurrent.futures.CancelledError)):
        future.result(60)


def test_a_cancel_under_the_lock_comes_later(client: Client) -> None:
    future = client.submit(time.sleep, 60)
    with client._client_io.lock:
        assert future.cancel()
        assert not future.done()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(60)


def test_what_is_submitted_while_another_thread_disconnects_is_refused_or_cancelled(
    combo: SchedulerClusterCombo,
) -> None:
    def submit_until_refused() -> None:
        try:
            while True:
                futures.append(client.submit(abs, -1))
        except ClientQuitException:
            pass

    for _ in range(10):
        client, futures = Client(combo.get_address()), []
        thread = threading.Thread(target=submit_until_refused)
        thread.start()
        wait_until(lambda futures=futures: len(futures) > 50)
        client.disconnect()
        thread.join(60)
        assert all(future.done() for future in futures)
