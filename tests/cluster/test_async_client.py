"""AsyncClient with real processes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import operator
import pickle
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from scaler.asynchronous.profile import AsyncProfile
from scaler.utility.exceptions import ClientQuitException, ControlError, DisconnectedError, RemoteTraceback, ScalerError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

T = TypeVar("T")
Both = pytest.mark.parametrize("name", ["imap", "imap_unordered"])
LARGE_BYTES = 20_000_000
SHORT_SECONDS = 0.5


def run(combo: SchedulerClusterCombo, body: Callable[[AsyncClient], Awaitable[T]]) -> T:
    async def main() -> T:
        async with AsyncClient(combo.get_address()) as client:
            return await body(client)

    return asyncio.run(main())


def make_bytes(size: int) -> bytes:
    return bytes(size)


def make_dicts(count: int) -> list[dict[str, int]]:
    return [{"number": number} for number in range(count)]


def stop_iteration() -> None:
    raise StopIteration(3)


def fail(text: str) -> None:
    raise KeyError(text)


def print_and_wait(*paths: str) -> None:
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    functions.wait_at_gate(*paths)


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


async def ticks(work: Awaitable[T]) -> tuple[T, bool]:
    """The result of ``work``, and whether the event loop did nothing else for more than half of the time."""
    longest, is_over = 0.0, False

    async def tick() -> None:
        nonlocal longest
        while not is_over:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    longest, began = 0.0, time.perf_counter()
    try:
        result = await work
        return result, longest > max(SHORT_SECONDS, (time.perf_counter() - began) / 2)
    finally:
        is_over = True
        await ticker


# ---- submit --------------------------------------------------------------------------------------------------------


def test_what_asyncio_offers_for_futures_works(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        assert await client.submit(operator.add, 1, 2) == 3
        assert await asyncio.gather(*[client.submit(operator.neg, n) for n in range(3000)]) == [-n for n in range(3000)]
        done, pending = await asyncio.wait([client.submit(operator.neg, n) for n in range(10)])
        assert {future.result() for future in done} == {-n for n in range(10)} and not pending
        assert {await future for future in asyncio.as_completed([client.submit(operator.neg, 1)])} == {-1}
        assert await asyncio.wait_for(client.submit(operator.neg, 2), 30) == -2
        assert await client.submit(sorted, [3, 1], reverse=True) == [3, 1]
        assert await client.submit_verbose(operator.neg, (2,), priority=2) == -2

    run(combo, body)


def test_a_task_group_runs_tasks_and_cancels_the_rest_when_one_fails(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(client.run(operator.neg, n)) for n in range(100)]
        assert [task.result() for task in tasks] == [-n for n in range(100)]
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                held = group.create_task(client.run(functions.wait_at_gate, *gate.paths))
                group.create_task(client.run(fail, "x"))
        assert isinstance(caught.value.exceptions[0], KeyError) and held.cancelled()
        assert await client.submit(operator.neg, 1) == -1

    run(combo, body)


def test_an_exception_arrives_with_the_traceback_of_the_worker(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        with pytest.raises(KeyError, match="here") as caught:
            await client.submit(fail, "here")
        assert isinstance(caught.value.__cause__, RemoteTraceback) and "in fail" in str(caught.value.__cause__)
        with pytest.raises(RuntimeError) as replaced:
            await client.submit(stop_iteration)
        assert isinstance(replaced.value.__cause__, StopIteration)
        with pytest.raises(TypeError):
            client.submit(fail)
        with pytest.raises(TypeError, match="argument 'text'"):
            client.submit(fail, threading.Lock())
        with pytest.raises(TypeError, match="A future can be an argument"):
            pickle.dumps(client.submit(operator.neg, 1))

    run(combo, body)


def test_profiling_information_is_there_when_the_task_has_ended(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit_verbose(functions.wait_at_gate, gate.paths, profiling=True)
        with pytest.raises(ValueError, match="not finished"):
            future.profiling_info()
        gate.open()
        await future
        assert future.profiling_info().memory_peak is not None

    run(combo, body)


# ---- cancellation and time limits ------------------------------------------------------------------------------------


def test_cancelling_the_coroutine_interrupts_the_task(single_combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        waiting = asyncio.create_task(client.run(functions.wait_at_gate, *gate.paths))
        while not gate.waiting_pids:
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.wait_for(client.submit(operator.neg, 1), 60) == -1  # the only worker is free

    run(single_combo, body)


def test_a_timeout_cancels_the_task(single_combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.submit(time.sleep, 3600)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.map(time.sleep, [3600] * 10)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.get({"n": 3600, "a": (time.sleep, "n")}, ["a"])
        assert await asyncio.wait_for(client.submit(operator.neg, 1), 60) == -1

    run(single_combo, body)


def test_thousands_of_tasks_are_cancelled_together(single_combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        everything = asyncio.gather(*[client.submit(time.sleep, 3600) for _ in range(5000)])
        while sum((await client.cluster_info()).unfinished) < 5000:
            await asyncio.sleep(0.01)
        everything.cancel()
        with pytest.raises(asyncio.CancelledError):
            await everything
        assert await asyncio.wait_for(client.submit(operator.neg, 1), 60) == -1

    run(single_combo, body)


def test_a_shielded_future_goes_on(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit(functions.wait_at_gate, *gate.paths, 7)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(future), 0.2)
        gate.open()
        assert await future == 7

    run(combo, body)


# ---- maps and iterations ---------------------------------------------------------------------------------------------


def test_map_and_starmap(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        assert await client.map(operator.neg, range(5000)) == [-n for n in range(5000)]
        assert await client.map(operator.add, [1, 2], [3, 4]) == [4, 6]
        assert await client.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
        both = await asyncio.gather(*[client.map(operator.neg, range(100)) for _ in range(8)])
        assert both == [[-n for n in range(100)]] * 8
        with pytest.raises(KeyError) as caught:
            await client.map(fail, ["x", "y"])
        assert caught.value.__notes__

    run(combo, body)


@Both
def test_an_endless_input_is_read_with_back_pressure(combo: SchedulerClusterCombo, name: str) -> None:
    read = 0

    def numbers() -> Iterator[int]:
        nonlocal read
        while True:
            read += 1
            yield read

    async def body(client: AsyncClient) -> None:
        taken = 0
        async for _ in getattr(client, name)(operator.neg, numbers(), buffer_size=20):
            taken += 1
            assert read <= taken + 20
            if taken == 100:
                break

    run(combo, body)


@Both
def test_an_asynchronous_input_is_read_with_back_pressure(combo: SchedulerClusterCombo, name: str) -> None:
    read = 0

    async def numbers() -> AsyncIterator[int]:
        nonlocal read
        for read in range(1, 201):  # noqa: B007
            if read % 50 == 0:
                await asyncio.sleep(0.01)
            yield read

    async def body(client: AsyncClient) -> None:
        taken = []
        async for result in getattr(client, name)(operator.neg, numbers(), buffer_size=20):
            taken.append(result)
            assert read <= len(taken) + 21
        assert sorted(taken) == [-n for n in range(200, 0, -1)]

    run(combo, body)


def test_an_iteration_in_order_names_the_item_that_failed(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        results = []
        with pytest.raises(ZeroDivisionError) as caught:
            async for result in client.imap(operator.truediv, [1, 2, 3], [1, 0, 1]):
                results.append(result)
        assert results == [1.0] and "item 1 of imap()" in caught.value.__notes__[0]

        async def failing() -> AsyncIterator[int]:
            yield 1
            raise LookupError("the source")

        with pytest.raises(LookupError, match="the source"):
            async for _ in client.imap(operator.neg, failing()):
                pass
        with pytest.raises(ValueError, match="buffer_size"):
            client.imap(operator.neg, [1], buffer_size=0)

    run(combo, body)


# ---- the loop is not blocked -----------------------------------------------------------------------------------------


def test_large_arguments_and_results_do_not_block_the_loop(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        await client.submit(make_bytes, LARGE_BYTES)
        result, was_blocked = await ticks(client.submit(make_bytes, LARGE_BYTES))
        assert len(result) == LARGE_BYTES and not was_blocked
        dicts, was_blocked = await ticks(client.submit(make_dicts, 300_000))
        assert dicts == make_dicts(300_000) and not was_blocked
        large = bytes(LARGE_BYTES)
        assert await client.submit(len, large) == LARGE_BYTES
        reference = await client.send_object(large)
        assert await asyncio.gather(*[client.submit(len, reference) for _ in range(10)]) == [LARGE_BYTES] * 10
        with pytest.raises(TypeError):
            client.submit(len, large, large)

    run(combo, body)


def test_a_loop_that_is_busy_does_not_lose_its_scheduler(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        futures = [client.submit(operator.neg, n) for n in range(1000)]
        time.sleep(4)  # noqa: ASYNC251
        assert await asyncio.gather(*futures) == [-n for n in range(1000)]

    run(combo, body)


# ---- graphs, locks and questions -------------------------------------------------------------------------------------


def test_graphs(combo: SchedulerClusterCombo) -> None:
    graph = {"a": 3, "b": (operator.neg, "a"), "c": (operator.add, "a", "b")}

    async def body(client: AsyncClient) -> None:
        assert await client.get(graph, ["c", "b"]) == {"c": 0, "b": -3}
        with pytest.raises(KeyError):
            await client.get({"x": 1, "a": (fail, "x")}, ["a"])

    run(combo, body)


def test_locks_exclude_coroutines_and_clients(combo: SchedulerClusterCombo, client: Client) -> None:
    async def body(async_client: AsyncClient) -> None:
        inside = 0

        async def enter() -> None:
            nonlocal inside
            async with async_client.lock("async"):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0.005)
                inside -= 1

        await asyncio.gather(*[enter() for _ in range(10)])
        lock = async_client.lock("async")
        other = client.lock("async")
        assert other.acquire(timeout=30)
        assert await lock.locked()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await lock.acquire()
        other.release()
        assert await asyncio.wait_for(lock.acquire(), 30)
        await lock.release()
        with pytest.raises(RuntimeError, match="does not hold"):
            await lock.release()

    run(combo, body)


def test_questions(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        while await client.n_workers() < 2:  # they may be joining
            await asyncio.sleep(0.01)
        assert len((await client.cluster_info()).workers) == 2
        future = client.submit(functions.wait_at_gate, *gate.paths, 1)
        while not gate.waiting_pids:
            await asyncio.sleep(0.01)
        assert await client.explain(future)
        gate.open()
        await future
        assert await client.explain(future) == "The task has ended."
        mistakes: list[Callable[[Any], Awaitable[str]]] = [client.explain, client.stack, client.output]
        for call in mistakes:
            with pytest.raises(TypeError, match="3: it is n"):
                await call(3)
        async with AsyncClient(combo.get_address()) as other:
            for call in (other.explain, other.stack, other.output):
                with pytest.raises(ValueError, match="it is a task of another client"):
                    await call(future)

    run(combo, body)


def test_stack_and_output_of_a_task_are_shown(single_combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit(print_and_wait, *gate.paths)
        while not gate.waiting_pids:
            await asyncio.sleep(0.01)
        assert "in print_and_wait" in await client.stack(future)
        [worker] = (await client.cluster_info()).workers
        assert "in print_and_wait" in await client.stack(worker.name)
        gate.open()
        await future
        assert await client.output(future) == "to stdout\nto stderr\n"
        assert await client.output(future, stream="stderr") == "to stderr\n"
        assert "print_and_wait" in await client.output(worker.name)
        with pytest.raises(ControlError, match="has ended"):
            await client.stack(future)
        with pytest.raises(ValueError, match="Give 'stdout'"):
            await client.output(future, stream="stdin")

    run(single_combo, body)


def test_a_profile_is_taken_without_blocking_the_loop(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        async def take() -> AsyncProfile:
            async with client.profile(0.005) as profile:
                await client.submit(spin, 1.0)
            return profile

        profile, was_blocked = await ticks(take())
        assert "spin" in profile.text() and profile.seconds >= 1.0 and not was_blocked
        with pytest.raises(ControlError, match="has not begun"):
            await profile.stop()
        with pytest.raises(ValueError, match="Choose an interval"):
            client.profile(0)

    run(combo, body)


def test_a_profile_whose_beginning_is_cancelled_ends(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        profile = client.profile(0.005)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await profile.start()
        async with profile:
            await client.submit(spin, 0.5)
        assert "spin" in profile.text()

    run(combo, body)


def test_coroutines_act_on_workers_tasks_and_groups(combo: SchedulerClusterCombo, client: Client, gate: Gate) -> None:
    futures = [client.submit(functions.wait_at_gate, *gate.paths) for _ in range(5)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    other = client.identity.hex()[:8]

    async def body(operating: AsyncClient) -> None:
        [agent] = {worker.agent for worker in (await operating.cluster_info()).workers}
        assert await operating.pause_workers(agent) == [agent] == await operating.resume_workers(agent)
        await operating.set_weight(2, client=other)
        while 2 not in [row.weight for row in (await operating.cluster_info()).clients]:
            await asyncio.sleep(0.01)
        await operating.set_limit(5, group="default")
        await operating.set_limit(0, group="default")
        assert await operating.set_priority(3, client=other) > 0
        assert await operating.cancel_tasks(client=other, task=futures[-1].task_id) == 1
        assert await operating.cancel_tasks(function="wait_at_gate") == 4
        with pytest.raises(ControlError, match="no agent, worker or host has this name"):
            await operating.drain_workers("nowhere")
        with pytest.raises(ControlError, match="Cannot restart"):
            await operating.restart_worker("nowhere")
        with pytest.raises(TypeError, match="either client or function"):
            await operating.cancel_tasks()

    run(combo, body)
    for future in futures:
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)


def test_a_coroutine_kills_a_worker_process(gate: Gate) -> None:
    async def main(address: str) -> None:
        async with AsyncClient(address) as client:
            future = client.submit(functions.wait_at_gate, *gate.paths, 7)
            while not gate.waiting_pids:
                await asyncio.sleep(0.01)
            [worker] = (await client.cluster_info()).workers
            await client.kill_worker(worker.name)
            while gate.waiting_pids in ([], [worker.pid]):
                await asyncio.sleep(0.01)
            gate.open()
            assert await future == 7

    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1):
        asyncio.run(main(address))


# ---- life ------------------------------------------------------------------------------------------------------------


def test_closing_cancels_what_is_unfinished(combo: SchedulerClusterCombo) -> None:
    async def main() -> None:
        client = await AsyncClient(combo.get_address()).open()
        futures = [client.submit(time.sleep, 3600) for _ in range(100)]
        mapping = asyncio.create_task(client.map(time.sleep, [3600] * 4))
        await client.lock("held").acquire()
        waits: list[Awaitable[object]] = [
            client.lock("held").acquire(),
            client.queue("q").get(),
            client.event("e").wait(),
        ]
        waiting = list(map(asyncio.ensure_future, waits))
        while sum((await client.cluster_info()).unfinished) < 104:
            await asyncio.sleep(0.01)
        await client.close()
        await client.close()
        for failure in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(failure, ScalerError) and "has left" in str(failure)
        ended = await asyncio.gather(*futures, mapping, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended[-1]
        with pytest.raises(ClientQuitException):
            client.submit(operator.neg, 1)
        with pytest.raises(RuntimeError, match="opened before"):
            await client.open()

    asyncio.run(main())


def test_a_client_belongs_to_its_loop(combo: SchedulerClusterCombo) -> None:
    closed = AsyncClient(combo.get_address())
    uses: list[Callable[[], object]] = [
        lambda: closed.submit(operator.neg, 1),
        lambda: closed.lock("lock"),
        lambda: closed.queue("queue"),
        lambda: closed.address,
        lambda: closed.identity,
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match="not open"):
            use()

    async def body(client: AsyncClient) -> None:
        async def elsewhere() -> None:
            client.submit(operator.neg, 1)

        with ThreadPoolExecutor(1) as pool:
            with pytest.raises(RuntimeError, match="belongs to the event loop"):
                await asyncio.wrap_future(pool.submit(asyncio.run, elsewhere()))
            with pytest.raises(RuntimeError, match="belongs to the event loop"):
                await asyncio.wrap_future(pool.submit(client.submit, operator.neg, 1))
            other = pool.submit(run, combo, lambda client: client.submit(operator.neg, 5))
            assert await asyncio.wrap_future(other) == -5  # another loop, another client

    run(combo, body)


def test_a_loop_that_closes_early_leaves_the_client_harmless(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def main() -> AsyncClient:
        client = await AsyncClient(combo.get_address()).open()
        client.submit(functions.wait_at_gate, *gate.paths)
        return client

    client = asyncio.run(main())
    with Client(combo.get_address()) as other:
        wait_until(lambda: gate.waiting_pids)
        gate.open()
        wait_until(lambda: not sum(other.cluster_info().unfinished))
    with pytest.raises(RuntimeError, match="belongs to the event loop"):
        client.submit(operator.neg, 1)
    with pytest.warns(ResourceWarning, match="not closed"):
        del client
        gc.collect()


def test_a_scheduler_that_is_gone_fails_what_waits() -> None:
    async def main() -> None:
        combo = SchedulerClusterCombo(1, grace_seconds=0)
        async with AsyncClient(combo.get_address(), timeout_seconds=1) as client:
            futures: list[Any] = [client.submit(time.sleep, 3600) for _ in range(10)]
            while not (await client.cluster_info()).unfinished.running:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(combo.shutdown)
            for outcome in await asyncio.gather(*futures, return_exceptions=True):
                assert isinstance(outcome, DisconnectedError)
            with pytest.raises(DisconnectedError):
                await client.cluster_info()

    asyncio.run(main())


def test_tasks_may_use_it_with_one_worker(single_combo: SchedulerClusterCombo) -> None:
    def fibonacci(n: int) -> int:
        async def main() -> int:
            if n < 2:
                return n
            async with AsyncClient() as inner:
                first = inner.submit(fibonacci, n - 1)
                return await first + (await inner.map(fibonacci, [n - 2]))[0]

        return asyncio.run(main())

    assert run(single_combo, lambda client: client.submit(fibonacci, 5)) == 5


def test_uvloop(combo: SchedulerClusterCombo) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        async with AsyncClient(combo.get_address()) as client:
            assert await asyncio.gather(*[client.submit(operator.neg, n) for n in range(1000)]) == [
                -n for n in range(1000)
            ]
            assert await client.map(operator.neg, range(100)) == [-n for n in range(100)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_the_debug_mode_of_asyncio_finds_nothing(
    combo: SchedulerClusterCombo, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with AsyncClient(combo.get_address()) as client:
            assert await client.map(operator.neg, range(100)) == [-n for n in range(100)]
            assert len(await client.submit(make_bytes, 1_000_000)) == 1_000_000
            assert [each async for each in client.imap(operator.neg, range(100))] == [-n for n in range(100)]

    asyncio.run(main(), debug=True)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
