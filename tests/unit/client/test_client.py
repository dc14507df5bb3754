"""The client against a scheduler in a thread: threads, futures, reconnection."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import itertools
import math
import operator
import os
import pickle
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import scaler
from scaler import Client
from scaler.utility.exceptions import ClientQuitException, DisconnectedError, MissingObjects, ScalerError
from scaler_protocol.messages import MAP_TASKS_UNKNOWN, Tasks
from tests.support.ports import free_address
from tests.support.waiting import wait_until
from tests.unit.client.fake_scheduler import FakeScheduler


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with FakeScheduler() as running:
        yield running


# ---- results -----------------------------------------------------------------------------------------------------


def test_submit_and_map(client: Client) -> None:
    assert client.submit(math.sqrt, 16.0).result(5) == 4.0
    assert client.submit(int, "11", base=2).result(5) == 3
    assert client.map(operator.neg, range(10_000)) == [-value for value in range(10_000)]
    assert client.map(operator.add, [1, 2], [10, 20, 30]) == [11, 22]
    assert client.starmap(operator.mul, [(2, 3), (4, 5)]) == [6, 20]
    assert client.map(math.sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]
    assert client.map(math.sqrt, []) == []
    assert list(client.imap(operator.neg, iter(range(100)), buffer_size=7)) == [-value for value in range(100)]
    assert sorted(client.imap_unordered(operator.neg, range(100), buffer_size=7)) == list(range(-99, 1))


def test_calls_that_belong_together_are_a_map_with_a_number(scheduler: FakeScheduler) -> None:
    with Client(scheduler.address) as client:
        client.submit(operator.neg, 1).result(5)
        assert list(client.imap(operator.neg, range(10), buffer_size=3)) == [-value for value in range(10)]
        assert sorted(client.imap_unordered(operator.neg, range(4))) == [-3, -2, -1, 0]
        with client.as_executor() as executor:
            assert list(executor.map(operator.neg, range(5), buffersize=2)) == [0, -1, -2, -3, -4]
            assert list(executor.map(operator.neg, range(5), chunksize=2)) == [0, -1, -2, -3, -4]
            executor.submit(operator.neg, 1).result(5)
    runs = [run for body in scheduler.seen if isinstance(body, Tasks) for run in body.runs]
    counts: dict[int, int] = {}
    for run in runs:
        counts[run.options.map_number] = counts.get(run.options.map_number, 0) + run.count
    assert counts == {0: 2, 1: 10, 2: 4, 3: 5, 4: 3}
    assert {run.options.map_number: run.options.map_tasks for run in runs} == {0: 0, 1: 10, 2: 4, 3: 5, 4: 0}
    assert {run.function_name for run in runs} == {"neg"}


def test_a_client_that_has_left_keeps_no_descriptor_open(scheduler: FakeScheduler) -> None:
    """Nor does it wait for the garbage collector: programs may open many clients, one after the other."""

    def use_client() -> int:
        with Client(scheduler.address) as client:
            assert client.submit(operator.neg, 1).result(5) == -1
            assert client.map(operator.neg, range(3)) == [0, -1, -2]
            return len(os.listdir("/proc/self/fd"))

    gc.collect()
    gc.disable()
    try:
        most = use_client()
        for _ in range(10):
            use_client()
        wait_until(lambda: len(os.listdir("/proc/self/fd")) < most)
    finally:
        gc.enable()


def test_maps_that_do_not_know_how_many_calls_they_will_make_say_so(scheduler: FakeScheduler) -> None:
    class Lengthless(list[int]):
        def __len__(self) -> int:
            raise TypeError("an object of a class with a length that has none")

    with Client(scheduler.address) as client:
        for items in (iter(range(3)), Lengthless(range(3))):
            assert list(client.imap(operator.neg, items)) == [0, -1, -2]
        assert list(client.imap(operator.add, range(2), itertools.count())) == [0, 2]
        with client.as_executor() as executor:
            assert list(executor.map(operator.neg, iter(range(3)), buffersize=2)) == [0, -1, -2]
            assert list(executor.map(operator.neg, range(5), buffersize=2, chunksize=2)) == [0, -1, -2, -3, -4]
            assert list(executor.map(operator.neg, iter(range(3)))) == [0, -1, -2]
    runs = [run for body in scheduler.seen if isinstance(body, Tasks) for run in body.runs]
    said = {run.options.map_number: run.options.map_tasks for run in runs}
    assert said == {1: MAP_TASKS_UNKNOWN, 2: MAP_TASKS_UNKNOWN, 3: MAP_TASKS_UNKNOWN, 4: MAP_TASKS_UNKNOWN, 5: 3, 6: 0}


def test_the_first_failure_of_a_map(client: Client) -> None:
    with pytest.raises(ValueError, match="math domain") as caught:
        client.map(math.sqrt, [1.0, -1.0, 4.0])
    assert "Traceback of the worker" in str(caught.value.__cause__)
    assert client.map(math.sqrt, [4.0]) == [2.0]


def test_a_result_is_the_same_object_for_all(client: Client) -> None:
    future = client.submit(list, (1, 2))
    assert future.result(5) is future.result() and future.exception() is None


def test_profiling_info(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    future, profiled = client.submit(math.sqrt, 1.0), client.submit(math.sqrt, 1.0, profiling=True)
    with pytest.raises(ValueError):
        future.profiling_info()
    scheduler.hold.clear()
    future.result(5), profiled.result(5)
    info = future.profiling_info()
    assert (info.duration_us, info.duration_s, info.cpu_time_s, info.memory_peak) == (7, 7e-6, 3e-6, None)
    assert profiled.profiling_info().memory_peak == profiled.profiling_info().peak_memory == 11


# ---- with nobody waiting -----------------------------------------------------------------------------------------


def test_results_arrive_with_nobody_waiting(client: Client) -> None:
    called = threading.Event()
    client.submit(math.sqrt, 4.0).add_done_callback(lambda _: called.set())
    assert called.wait(30)
    future = client.submit(math.sqrt, 4.0)
    deadline = time.monotonic() + 30
    while not future.done():
        assert time.monotonic() < deadline
    quiet = client.submit(math.sqrt, 4.0)
    wait_until(lambda: quiet._state == "FINISHED")


def test_a_batch_left_open_leaves_by_itself(client: Client) -> None:
    futures = [client.submit(math.sqrt, float(value)) for value in range(1000)]
    wait_until(lambda: all(future._state == "FINISHED" for future in futures))


def one_at_a_time_until_it_dozes(client: Client) -> None:
    deadline = time.monotonic() + 20
    while not client._client_io.background.dozes:
        assert client.submit(operator.neg, 1).result(5) == -1
        assert time.monotonic() < deadline


def test_the_background_thread_dozes_while_each_task_is_waited_for(client: Client) -> None:
    """And is there when somebody needs it."""
    one_at_a_time_until_it_dozes(client)
    called = threading.Event()
    client.submit(operator.neg, 2).add_done_callback(lambda _: called.set())
    assert called.wait(5)
    one_at_a_time_until_it_dozes(client)
    futures = [client.submit(operator.neg, value) for value in range(1000)]
    wait_until(lambda: all(future._state == "FINISHED" for future in futures))  # done() would look by itself
    assert not client._client_io.background.dozes


def test_wait_and_as_completed(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    futures = [client.submit(math.sqrt, float(value)) for value in range(50)]
    done, waiting = concurrent.futures.wait(futures, timeout=0.01)
    assert not done and len(waiting) == 50
    scheduler.hold.clear()
    assert len(concurrent.futures.wait(futures, timeout=5).done) == 50
    again = [client.submit(math.sqrt, float(value)) for value in range(50)]
    assert set(concurrent.futures.as_completed(again, timeout=5)) == set(again)


def test_what_is_not_a_future_is_refused(client: Client) -> None:
    with pytest.raises(TypeError, match=r"^Cannot wait for an object of type str: it is not a future\.$"):
        client.wait("abc")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^Cannot explain 3: it is not a future of a Scaler client\.$"):
        client.explain(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [3, "abc", None])
def test_what_is_not_a_list_of_arguments_is_refused(client: Client, arguments: Any) -> None:
    with pytest.raises(TypeError, match=r"^args must be a sequence of arguments, not .*\(argument,\)\.$"):
        client.submit_verbose(len, arguments)


def test_a_negative_timeout_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^timeout_seconds must not be negative, but is -1\.$"):
        Client("tcp://127.0.0.1:1", timeout_seconds=-1)


def test_await(client: Client) -> None:
    async def run() -> list[float]:
        return await asyncio.gather(*(client.submit(math.sqrt, float(value)) for value in range(20)))

    assert asyncio.run(run()) == [math.sqrt(value) for value in range(20)]


def test_timeout(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    future = client.submit(math.sqrt, 4.0)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        future.result(timeout=0.05)
    assert 0.04 < time.monotonic() - started < 1.0
    scheduler.hold.clear()
    assert future.result(5) == 2.0


# ---- cancelling --------------------------------------------------------------------------------------------------


def test_cancel(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    future, watched = client.submit(math.sqrt, 4.0), client.submit(math.sqrt, 4.0)
    called: list[object] = []
    watched.add_done_callback(called.append)
    assert future.running() and future.cancel() and future.cancel() and watched.cancel()
    assert future.cancelled() and future.done() and called == [watched]
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(1)
    scheduler.hold.clear()
    last = client.submit(math.sqrt, 9.0)
    assert last.result(5) == 3.0 and not last.cancel() and future.cancelled()


def test_clear_and_disconnect(scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    client = Client(scheduler.address)
    first = client.submit(math.sqrt, 4.0)
    client.clear()
    assert first.cancelled()
    second = client.submit(math.sqrt, 4.0)
    waiter = threading.Thread(target=concurrent.futures.wait, args=([second],))
    waiter.start()
    client.disconnect()
    client.disconnect()
    waiter.join(2)
    assert second.cancelled() and not waiter.is_alive()
    for call in (lambda: client.submit(math.sqrt, 1.0), lambda: client.map(math.sqrt, [1.0]), client.clear):
        with pytest.raises(ClientQuitException, match="client is already stopped"):
            call()


def test_disconnecting_wakes_who_waits(scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    client = Client(scheduler.address)
    future = client.submit(math.sqrt, 4.0)
    outcomes: list[object] = []
    all_there = threading.Barrier(4)

    def wait() -> None:
        all_there.wait()
        try:
            future.result()
        except BaseException as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    all_there.wait()
    client.disconnect()
    for thread in threads:
        thread.join(2)
    assert outcomes == [concurrent.futures.CancelledError] * 3


# ---- threads -----------------------------------------------------------------------------------------------------


def test_several_threads(client: Client) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        for value in range(300):
            if client.submit(operator.add, number, value).result(10) != number + value:
                wrong.append(value)
        if client.map(operator.neg, range(500)) != [-value for value in range(500)]:
            wrong.append("map")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == [] and not any(thread.is_alive() for thread in threads)


def test_a_follower_leads_when_the_leader_leaves(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    first, second = client.submit(math.sqrt, 4.0), client.submit(math.sqrt, 9.0)
    results: list[float] = []
    leader = threading.Thread(target=lambda: pytest.raises(TimeoutError, first.result, 0.1))
    follower = threading.Thread(target=lambda: results.append(second.result(5)))
    leader.start()
    follower.start()
    leader.join()
    scheduler.hold.clear()
    follower.join(5)
    assert results == [3.0]


# ---- connection --------------------------------------------------------------------------------------------------


def test_a_refusal_is_raised_at_once() -> None:
    with FakeScheduler(refuse="Not you.") as scheduler, pytest.raises(DisconnectedError, match="Not you."):
        Client(scheduler.address)


def test_a_scheduler_out_of_reach() -> None:
    with Client(free_address(), timeout_seconds=1) as client:
        future = client.submit(math.sqrt, 4.0)
        with pytest.raises(DisconnectedError) as caught:
            future.result(10)
        assert isinstance(caught.value, TimeoutError)
        started = time.monotonic()
    assert time.monotonic() - started < 0.5


def test_waiting_for_a_scheduler_is_told(caplog: pytest.LogCaptureFixture) -> None:
    address = free_address()
    start, check = f"Start one there with: scaler_scheduler {address}", f"Check with: scaler doctor {address}"
    lines = [
        f"Waiting for a scheduler at {address}: none answers there yet. {start}",
        f"Waiting for the scheduler at {address}, whose connection is lost. {check}",
    ]
    with Client(address) as client:
        wait_until(lambda: len(caplog.records) == 1)
        with FakeScheduler(address):
            assert client.submit(math.sqrt, 4.0).result(10) == 2.0
        wait_until(lambda: len(caplog.records) == 2)
    assert [record.getMessage() for record in caplog.records] == lines
    assert {(record.name, record.levelname) for record in caplog.records} == {("scaler", "WARNING")}


def test_a_scheduler_that_comes_up_later() -> None:
    address = free_address()
    with Client(address) as client:
        future = client.submit(math.sqrt, 4.0)
        with FakeScheduler(address):
            assert future.result(10) == 2.0


def test_a_restarted_scheduler_gets_unfinished_tasks_again() -> None:
    address = free_address()
    first = FakeScheduler(address)
    first.hold.set()
    with Client(address) as client:
        futures = [client.submit(math.sqrt, float(value)) for value in range(500)]
        wait_until(lambda: sum(run.count for _, run in first.held) == 500)
        first.stop()
        with FakeScheduler(address, epoch=2) as second:
            assert [future.result(10) for future in futures] == [math.sqrt(value) for value in range(500)]
            assert any(isinstance(body, Tasks) and body.resubmitted for body in second.seen)


def test_a_forked_child_is_told(client: Client) -> None:
    future = client.submit(math.sqrt, 4.0)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            client.submit(math.sqrt, 4.0)
        except ScalerError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert b"forked" in os.read(reader, 1000)
    os.close(reader)
    assert future.result(5) == 2.0


# ---- the rest ----------------------------------------------------------------------------------------------------


def test_a_collected_client_leaves_when_its_tasks_have_ended(scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    client = Client(scheduler.address)
    thread = client._client_io.background._thread
    future = client.submit(math.sqrt, 4.0)
    del client
    gc.collect()
    thread.join(0.05)
    assert thread.is_alive()
    scheduler.hold.clear()
    assert future.result(5) == 2.0
    thread.join(5)
    assert not thread.is_alive()


def test_objects(client: Client, scheduler: FakeScheduler) -> None:
    reference = client.send_object([1, 2], name="numbers")
    assert reference.name == "numbers"
    stranger = pickle.loads(pickle.dumps(reference))
    with pytest.raises(MissingObjects):
        client.submit(len, stranger)
    client.clear()
    with pytest.raises(MissingObjects):
        client.submit(len, reference)


def test_a_pickled_client_connects_anew(client: Client) -> None:
    with pickle.loads(pickle.dumps(client)) as copy:
        assert copy.identity != client.identity
        assert copy.submit(math.sqrt, 4.0).result(5) == 2.0


def test_an_address_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_SCHEDULER_ADDRESS", raising=False)
    with pytest.raises(ValueError, match="only inside a task"):
        Client()
    with pytest.raises(ValueError):
        Client("nonsense")


def test_parameters_have_names() -> None:
    parameters = inspect.signature(Client).parameters
    assert list(parameters) == [
        "address", "profiling", "timeout_seconds", "heartbeat_interval_seconds", "serializer", "stream_output",
        "group", "weight", "modules", "environment", "object_storage_address", "security_config",
    ]  # fmt: skip
    combo = inspect.signature(scaler.SchedulerClusterCombo).parameters
    assert list(combo)[:3] == ["n_workers", "address", "monitor_address"]
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in combo.values())


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError):
        scaler.nothing  # noqa: B018
    assert "SchedulerClusterCombo" in dir(scaler)


@pytest.mark.parametrize("has_callback", [False, True])
def test_a_task_waits_no_more_for_a_call_that_could_not_be_sent(
    client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, has_callback: bool
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(client._client_io, "enter_blocked", lambda *_: waits.append(1))
    monkeypatch.setattr(client._client_io, "leave_blocked", lambda *_: waits.append(-1))
    scheduler.hold.set()
    future = client.submit(operator.neg, 1)
    if has_callback:
        future.add_done_callback(lambda _: None)
    future.set_exception(KeyError("why"))
    assert waits == [1, -1]
