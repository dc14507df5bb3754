"""Futures of AsyncClient as arguments: values stay in the cluster until a coroutine needs them, and nothing remains."""

from __future__ import annotations

import asyncio
import gc
import operator
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from scaler.asynchronous.future import AsyncFuture
from scaler.utility.exceptions import MissingObjects
from tests.cluster.conftest import Gate
from tests.support import functions

T = TypeVar("T")
SIZE = 1_000_000


def run(combo: SchedulerClusterCombo, body: Callable[[AsyncClient], Awaitable[T]]) -> T:
    """Run a coroutine with a client, which has nothing left of its calls afterwards."""

    async def main() -> T:
        async with AsyncClient(combo.get_address()) as client:
            result = await body(client)
            await until(lambda: is_clear(client))
            return result

    return asyncio.run(main())


def is_clear(client: AsyncClient) -> bool:
    gc.collect()
    client_io = client._client._client_io
    session = client_io.session
    with client_io.lock:
        client_io.turn()
        session.check()
        return not (session.ranges or session.objects.uploads or session.submissions.graphs)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def zeros(count: int) -> bytes:
    return bytes(count)


# ---- values ----------------------------------------------------------------------------------------------------------


def test_a_result_is_an_argument_of_the_next_call(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        first = client.submit(functions.sleep_and_return, 0.1, 3)
        assert await client.submit(functions.square, first) == 9
        assert await client.submit(functions.square, first) == 9  # which has ended by now
        assert await first == 3
        assert await client.submit(functions.square, first) == 9  # which is here
        assert await client.submit(functions.add, first, right=first) == 6
        assert await client.submit_verbose(functions.add, (first, 1), priority=3) == 4
        assert await client.run(functions.add, first, 2) == 5

    run(combo, body)


def test_a_future_shows_its_state_and_its_function(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit(functions.wait_at_gate, *gate.paths)
        late, (sent,) = client.submit(functions.square, future), await client.scatter([1])
        assert repr(future) == "<AsyncFuture pending function=wait_at_gate>"
        assert repr(late) == "<AsyncFuture pending function=square>"
        assert repr(sent) == "<AsyncFuture finished result=1>"
        late.cancel()
        future.cancel()
        assert repr(late) == "<AsyncFuture cancelled function=square>"

    run(combo, body)


def test_a_chain_runs_in_the_cluster(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        for _ in range(2):
            value = client.submit(functions.increment, 0)
            for _ in range(300):
                value = client.submit(functions.increment, value)
            assert await value == 301

    run(combo, body)


def test_futures_are_found_inside_of_arguments(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        early, late = client.submit(functions.square, 2), client.submit(functions.sleep_and_return, 0.1, 5)
        await early
        call = client.submit(functions.identity, [early, (late, {"k": late})])
        assert await call == [4, (5, {"k": 5})]
        many = [client.submit(functions.increment, number) for number in range(3000)]
        assert await client.submit(sum, many) == sum(range(3001))

    run(combo, body)


def test_maps_iterations_and_graphs_take_futures(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        items = [client.submit(functions.increment, number) for number in range(20)]
        squares = [(number + 1) ** 2 for number in range(20)]
        assert await client.map(functions.square, items) == squares
        assert await client.starmap(operator.mul, [(item, item) for item in items]) == squares
        assert [result async for result in client.imap(functions.square, items)] == squares
        assert await client.map(sum, [[item, 1] for item in items[:3]]) == [2, 3, 4]
        graph = {"data": items[3], "result": (functions.square, "data")}
        assert await client.get(graph, ["result", "data"]) == {"result": 16, "data": 4}

    run(combo, body)


# ---- large values ----------------------------------------------------------------------------------------------------


def test_a_large_value_stays_in_the_cluster_until_it_is_awaited(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        early, late = client.submit(zeros, SIZE), client.submit(zeros, SIZE)
        joined = client.submit(functions.add, early, late)
        assert await client.submit(len, joined) == 2 * SIZE
        await until(lambda: late.has_ended)
        assert await client.submit(len, late) == SIZE
        assert not any(future.is_fetched for future in (early, late, joined))
        assert late.profiling_info().duration_us > 0
        assert await client.explain(late) == "The task has ended."
        assert await late == await early == zeros(SIZE)
        assert await client.submit(len, late) == SIZE  # it is here now

    run(combo, body)


@pytest.mark.parametrize(
    "wait",
    [
        lambda future: asyncio.gather(future),
        lambda future: asyncio.wait([future]),
        lambda future: asyncio.wait_for(future, 60),
        lambda future: asyncio.shield(future),
        lambda future: until(lambda: future.done()),  # looked up each time: its class changes
    ],
    ids=["gather", "wait", "wait_for", "shield", "done"],
)
def test_whatever_waits_for_a_large_value_gets_it(
    combo: SchedulerClusterCombo, wait: Callable[[AsyncFuture[bytes]], Awaitable[Any]]
) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit(zeros, SIZE)
        await until(lambda: future.has_ended)
        assert not future.is_fetched
        await wait(future)
        assert future.done() and future.result() == zeros(SIZE)

    run(combo, body)


def test_a_large_value_that_nothing_needs_is_freed(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        dropped = client.submit(zeros, SIZE)
        await until(lambda: dropped.has_ended)
        cancelled = client.submit(zeros, SIZE)
        await until(lambda: cancelled.has_ended)
        assert cancelled.cancel() and cancelled.done()
        with pytest.raises(asyncio.CancelledError):
            await client.submit(len, cancelled)

    run(combo, body)


def test_a_released_result_stays_for_the_calls_that_need_it(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        for _ in range(2):
            value = client.submit(zeros, SIZE)
            length = client.submit(len, value)
            value.release()
            assert await length == SIZE
            with pytest.raises(MissingObjects, match="released"):
                await value
            with pytest.raises(MissingObjects, match="released"):
                await client.submit(len, value)

    run(combo, body)


def test_a_value_is_released_while_another_thread_pickles_the_call_that_needs_it(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        for _ in range(20):
            value = client.submit(zeros, 10)
            joined = client.submit(operator.add, value, zeros(SIZE))
            value.release()
            assert len(await joined) == SIZE + 10

    run(combo, body)


def test_scattered_values_are_arguments(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        small, large = await client.scatter([3, zeros(SIZE)])
        assert small.done() and await small == 3
        assert await client.submit(functions.square, small) == 9
        assert await client.submit(len, large) == SIZE
        assert await client.submit(sum, [small, small]) == 6
        small.release()
        with pytest.raises(MissingObjects, match="released"):
            await client.submit(functions.square, small)

    run(combo, body)


def test_a_call_whose_arguments_are_still_pickled_is_an_argument(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        for value in (zeros(SIZE), [zeros(10_000)] * 100):  # obviously large, and large when it has been pickled
            length = client.submit(len, value)
            doubled = client.submit(functions.add, length, length)
            assert await doubled == 2 * len(value)
        cancelled = client.submit(functions.wait_at_gate, *gate.paths, zeros(SIZE))
        call = client.submit(len, cancelled)
        assert cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(combo, body)


# ---- failures --------------------------------------------------------------------------------------------------------


def test_a_failed_input_fails_all_that_need_it(combo: SchedulerClusterCombo, caplog: pytest.LogCaptureFixture) -> None:
    async def body(client: AsyncClient) -> None:
        for _ in range(2):  # held in the client at first, in the cluster later
            failing = client.submit(functions.fail, "why")
            second = client.submit(functions.identity, failing)
            last = client.submit(functions.identity, [second])
            with pytest.raises(ValueError, match="why") as caught:
                await last
            assert any("fail()" in note for note in caught.value.__notes__)
        with pytest.raises(ValueError, match="why"):
            await client.submit(functions.identity, failing)

    run(combo, body)
    gc.collect()
    said = [record.message for record in caplog.records if record.name == "asyncio"]
    assert not said, "the calls have raised the exceptions of these inputs"


def test_the_failures_of_a_chain_name_its_first_call(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        for _ in range(2):  # held in the client at first, in the cluster later
            calls = [client.submit(functions.fail, "why")]
            for _ in range(3):
                calls.append(client.submit(functions.identity, calls[-1]))
            await asyncio.wait(calls)
            errors = [each.exception() for each in calls]
            assert [type(error) for error in errors] == [ValueError] * 4
            notes = ["\n".join(getattr(error, "__notes__", ())) for error in errors[1:]]
            assert all("An input of identity()" in note and "did not succeed: fail()" in note for note in notes)
            assert len(set(notes)) == 1

    run(combo, body)


def test_a_cancelled_input_cancels_all_that_need_it(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        waiting = client.submit(functions.wait_at_gate, *gate.paths)
        second = client.submit(functions.identity, waiting)
        last = client.submit(functions.identity, second)
        assert "wait_at_gate()" in await client.explain(second)
        awaiting = asyncio.create_task(client.gather([waiting]))
        await until(lambda: bool(gate.waiting_pids))
        await asyncio.sleep(0)  # it has begun to wait
        awaiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await last
        assert waiting.cancelled() and second.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await client.submit(functions.identity, waiting)

    run(combo, body)


def test_a_call_is_cancelled_while_it_waits_for_its_input(combo: SchedulerClusterCombo, gate: Gate) -> None:
    async def body(client: AsyncClient) -> None:
        waiting = client.submit(functions.wait_at_gate, *gate.paths, 7)
        second = client.submit(functions.identity, waiting)
        last = client.submit(functions.identity, second)
        assert second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await last
        gate.open()
        assert await waiting == 7

    run(combo, body)


def test_a_future_of_another_client_is_refused(combo: SchedulerClusterCombo, client: Client) -> None:
    async def body(mine: AsyncClient) -> None:
        future = mine.submit(functions.square, 2)
        for nested in (future, [future]):
            with pytest.raises(ValueError, match="future of another client"):
                client.submit(functions.identity, nested)
        with pytest.raises(ValueError, match="future of another client"):
            mine.submit(functions.identity, client.submit(functions.square, 2))
        with pytest.raises(TypeError, match="A future can be an argument"):
            await mine.send_object([future])
        async with AsyncClient(combo.get_address()) as other:
            foreign = other.submit(functions.square, 3)
            assert await foreign == 9
        with pytest.raises(ValueError, match="a client that is closed"):
            mine.submit(functions.identity, foreign)
        assert await future == 4

    run(combo, body)


def test_calls_that_wait_end_with_their_client(combo: SchedulerClusterCombo) -> None:
    async def main() -> None:
        async with AsyncClient(combo.get_address()) as client:
            waiting = client.submit(time.sleep, 60)
            second = client.submit(functions.identity, waiting)
            last = client.submit(functions.identity, [second])
        for future in (waiting, second, last):
            with pytest.raises(asyncio.CancelledError):
                await future

    asyncio.run(main())


# ---- keys and options ------------------------------------------------------------------------------------------------


def test_calls_with_one_key_are_one_task(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        first = client.submit(pow, 2, 10, key="power")
        assert client.submit(pow, 2, 10, key="power") is first
        assert client.submit_verbose(pow, (2, 10), key="power", priority=1) is first
        pure = client.submit(functions.add, first, 1, pure=True)
        assert client.submit(functions.add, first, 1, pure=True) is pure
        assert client.submit(functions.add, first, 2, pure=True) is not pure
        assert await pure == 1025 and await first == 1024
        assert first.cancel() is False
        gone = client.submit(time.sleep, 60, key="gone")
        gone.cancel()
        assert client.submit(abs, -1, key="gone") is not gone
        with pytest.raises(TypeError, match="pass one of them"):
            client.submit(abs, 1, key="a", pure=True)
        with pytest.raises(TypeError, match="Cannot use this key"):
            client.submit_verbose(abs, (1,), key=[])

    run(combo, body)


class Table:
    """An argument that is obviously large. ``pickled_in``: the threads in which one was pickled."""

    nbytes = SIZE
    pickled_in: ClassVar[list[int]] = []

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        self.pickled_in.append(threading.get_ident())
        if self.text == "broken":
            raise ValueError("It does not pickle.")
        return bytes, (self.text.encode(),)


def repeated(text: bytes) -> bytes:
    return text * SIZE


def test_large_arguments_of_pure_calls_are_pickled_in_other_threads(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        first = client.submit(repeated, Table("x"), pure=True)
        second = client.submit_verbose(repeated, (Table("x"),), pure=True)
        other = client.submit(repeated, Table("y"), pure=True)
        assert await client.submit(len, second) == await client.submit(len, first) == SIZE
        assert await first is await second  # one task, whose result is fetched once
        assert first.task_id == second.task_id != other.task_id
        assert (await other)[:1] == b"y"
        third = client.submit(repeated, Table("x"), pure=True)
        assert await third is await first
        assert third.profiling_info() == first.profiling_info()
        assert threading.get_ident() not in Table.pickled_in
        with pytest.raises(ValueError, match="It does not pickle"):
            await client.submit(repeated, Table("broken"), pure=True)
        with pytest.raises(TypeError, match="argument"):
            client.submit(repeated, Table("x"), 1, pure=True)

    run(combo, body)


def sleep_for(table: bytes) -> None:
    time.sleep(60)


def number_in(text: bytes) -> int:
    return int(text)


def test_equal_pure_calls_end_together(combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> None:
        first, second = (client.submit(sleep_for, Table("z"), pure=True) for _ in range(2))
        dependant = client.submit(functions.identity, [second])
        await until(lambda: bool(first.task_id) and first.task_id == second.task_id)
        assert "sleep_for" in await client.explain(second)
        second.cancel()
        for future in (first, dependant):
            with pytest.raises(asyncio.CancelledError):
                await future
        failing = [client.submit(number_in, Table("no number"), pure=True) for _ in range(2)]
        for future in failing:
            with pytest.raises(ValueError, match="invalid literal"):
                await future

    run(combo, body)


def test_profiling_is_an_option_unless_the_function_has_such_a_parameter(combo: SchedulerClusterCombo) -> None:
    def echo(profiling: int) -> int:
        return profiling

    async def body(client: AsyncClient) -> None:
        profiled = client.submit(abs, -1, profiling=True)
        assert await profiled == 1 and profiled.profiling_info().memory_peak is not None
        assert await client.submit(echo, profiling=3) == 3

    run(combo, body)


# ---- inside tasks ----------------------------------------------------------------------------------------------------


def chain_inside(length: int) -> int:
    async def main() -> int:
        async with AsyncClient() as client:
            value = client.submit(functions.increment, 0)
            for _ in range(length):
                value = client.submit(functions.increment, value)
            large = client.submit(zeros, SIZE)
            size = client.submit(len, large)
            await until(lambda: large.has_ended)
            assert not large.is_fetched
            return await value + await size + len(await large)

    return asyncio.run(main())


def test_tasks_submit_chains_with_one_worker(single_combo: SchedulerClusterCombo) -> None:
    async def body(client: AsyncClient) -> int:
        return await client.submit(chain_inside, 20)

    assert run(single_combo, body) == 21 + 2 * SIZE
