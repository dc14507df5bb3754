"""The futures of AsyncClient in each of their states, as arguments and with large results."""

from __future__ import annotations

import asyncio
import gc
import operator
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from scaler import AsyncClient, Client
from scaler.asynchronous.future import AsyncFuture
from scaler.utility.exceptions import ClientQuitException
from scaler.utility.private_apis import has_callbacks
from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import ObjectRequest, Status
from tests.support.waiting import wait_until
from tests.unit.client.fake_scheduler import FakeScheduler

pytestmark = pytest.mark.timeout(60)


class KeepingScheduler(FakeScheduler):
    """Says of each result that it is large, and stays in the cluster."""

    def _run_task(self, run: TaskRun, index: int) -> tuple[int, bytes]:
        return int(Status.SUCCESS_LARGE), (100_000).to_bytes(8, "little")

    @property
    def requests(self) -> int:
        return sum(isinstance(body, ObjectRequest) for body in list(self.seen))


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with FakeScheduler() as running:
        yield running


@pytest.fixture
def keeping() -> Iterator[KeepingScheduler]:
    with KeepingScheduler() as running:
        yield running


def run(scheduler: FakeScheduler, body: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with AsyncClient(scheduler.address) as client:
            return await body(client)

    return asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def fail(text: str) -> None:
    raise KeyError(text)


# ---- the state of a future that becomes an argument ------------------------------------------------------------------


def test_a_future_whose_task_runs_is_replaced_in_the_session(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        scheduler.hold.set()
        future = client.submit(operator.neg, 1)
        entry, index = future.task_range, future.task_index
        task = future.as_argument()
        assert task is future.as_argument() is future.behind() and not task.done()
        assert entry is not None and entry.sinks[index] is task and task.task_id == future.task_id
        scheduler.hold.clear()
        assert await future == -1 and task.result() == -1
        assert future.profiling_info().duration_us == 7

    run(scheduler, body)


def test_the_session_knows_the_futures_of_a_chain_themselves(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        scheduler.hold.set()
        client.submit(operator.neg, client.submit(operator.neg, 1))  # from now on, its calls are nodes of a graph
        first = client.submit(operator.neg, 2)
        second = client.submit(operator.neg, first)
        assert first._behind is None and second._behind is None, "further futures cost time"
        assert second.task_range is not None and second.task_range.part.inputs[second.task_index] == [first]

    run(scheduler, body)


def test_a_result_that_the_loop_has_not_taken_is_an_argument(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit(operator.neg, 1)
        wait_until(lambda: future.has_ended)  # the loop does nothing meanwhile
        assert not future.done()
        assert future.as_argument().result() == -1
        assert await client.submit(operator.neg, future) == 1
        assert await future == -1

    run(scheduler, body)


def test_what_has_ended_is_an_argument(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        future, failed = client.submit(operator.neg, 1), client.submit(fail, "x")
        await asyncio.wait([future, failed])
        assert future.as_argument().result() == -1
        with pytest.raises(KeyError, match="x"):
            failed.as_argument().result()
        with pytest.raises(KeyError, match="x"):
            await client.submit(operator.neg, failed)

    run(scheduler, body)


def test_a_future_that_the_program_has_ended_is_an_argument(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        scheduler.hold.set()
        given, broken = client.submit(operator.neg, 1), client.submit(operator.neg, 1)
        given.set_result(5)
        broken.set_exception(LookupError("why"))
        scheduler.hold.clear()
        assert await client.submit(operator.neg, given) == -5
        with pytest.raises(LookupError, match="why"):
            await client.submit(operator.neg, broken)

    run(scheduler, body)


def test_a_cancelled_future_cancels_the_call(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        scheduler.hold.set()
        for uses in range(2):
            future = client.submit(operator.neg, 1)
            if uses:
                future.as_argument()  # before
            assert future.cancel()
            with pytest.raises(CancelledError):
                future.as_argument().result()
            with pytest.raises(asyncio.CancelledError):
                await client.submit(operator.neg, future)

    run(scheduler, body)


def test_a_future_of_a_loop_that_is_closed_is_refused(scheduler: FakeScheduler, client: Client) -> None:
    async def body(client: AsyncClient) -> AsyncFuture[int]:
        future = client.submit(operator.neg, 1)
        await future
        return future

    async def unfinished(client: AsyncClient) -> AsyncFuture[int]:
        scheduler.hold.set()
        return client.submit(operator.neg, 1)

    for future in (run(scheduler, body), run(scheduler, unfinished)):
        for argument in (future, [future]):
            with pytest.raises(ValueError, match="a future of a client that is closed"):
                client.submit(operator.neg, argument)


# ---- large results ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_argument", [False, True])
def test_a_large_result_is_fetched_when_something_needs_it(keeping: KeepingScheduler, is_argument: bool) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit(bytes, 100_000)
        done = future.done
        if is_argument:
            future.as_argument()
        await until(lambda: future.has_ended)
        await client.explain(future)
        assert future.profiling_info().duration_us == 7
        assert not future.is_fetched and not keeping.requests
        assert not done() and not done()  # which asks for it
        await until(lambda: keeping.requests == 1)
        future.add_done_callback(lambda _: None)
        assert future.cancel() and done()

    run(keeping, body)


def test_a_callback_requests_a_large_result_whenever_its_method_was_looked_up(keeping: KeepingScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit(bytes, 100_000)
        add_done_callback, ended = future.add_done_callback, asyncio.Event()
        await until(lambda: future.has_ended)
        await client.explain(future)
        assert not keeping.requests
        add_done_callback(lambda _: ended.set())
        await until(lambda: keeping.requests == 1)
        assert future.cancel()
        await ended.wait()

    run(keeping, body)


def test_a_future_that_is_awaited_already_fetches_its_large_result(keeping: KeepingScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        awaiting = [asyncio.create_task(client.run(bytes, 100_000)) for _ in range(3)]
        await until(lambda: keeping.requests == 3)
        for task in awaiting:
            task.cancel()
        await asyncio.wait(awaiting)

    run(keeping, body)


def test_an_iteration_fetches_large_results_ahead(keeping: KeepingScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        results = client.imap(bytes, [100_000] * 3)
        first = asyncio.create_task(anext(results))
        await until(lambda: keeping.requests == 3)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first

    run(keeping, body)


def test_a_large_result_of_a_client_that_is_closed_is_gone(keeping: KeepingScheduler) -> None:
    async def main() -> None:
        async with AsyncClient(keeping.address) as client:
            future = client.submit(bytes, 100_000)
            await until(lambda: future.has_ended)
        with pytest.raises(ClientQuitException):
            await future

    asyncio.run(main())


def test_asyncio_reports_a_failure_unless_a_call_raises_it(scheduler: FakeScheduler) -> None:
    reported: list[object] = []

    async def body(client: AsyncClient) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"].args))
        used, unused = client.submit(fail, "used"), client.submit(fail, "unused")
        with pytest.raises(KeyError):
            await client.submit(operator.neg, used)
        await until(unused.done)
        del used, unused
        await until(lambda: gc.collect() >= 0 and bool(reported))  # the thread that reads may still have a reference

    run(scheduler, body)
    assert reported == [("unused",)]


# ---- waits -----------------------------------------------------------------------------------------------------------


def test_a_wait_returns_what_has_ended_and_the_rest(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        assert await client.wait([]) == (set(), set())
        ended = [client.submit(operator.neg, number) for number in range(3)]
        assert await client.wait(iter(ended)) == (set(ended), set())
        assert await client.wait(ended) == (set(ended), set())  # again
        scheduler.hold.set()
        held = client.submit(operator.neg, 9)
        assert await client.wait([held], timeout=0.01) == (set(), {held})
        assert await client.wait([*ended, held], return_when=asyncio.FIRST_COMPLETED) == (set(ended), {held})
        assert held.cancel()
        assert await client.wait([held]) == ({held}, set())

    run(scheduler, body)


def test_a_wait_ends_with_the_first_exception_that_is_no_cancellation(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        good, bad = client.submit(operator.neg, 1), client.submit(fail, "x")
        await client.wait([good, bad])
        scheduler.hold.set()
        held, cancelled = client.submit(operator.neg, 9), client.submit(operator.neg, 9)
        cancelled.cancel()
        first = asyncio.FIRST_EXCEPTION
        assert await client.wait([good, held, cancelled], 0.01, first) == ({good, cancelled}, {held})
        assert await client.wait([held, bad], return_when=first) == ({bad}, {held})
        waiting = asyncio.create_task(client.wait([held], return_when=first))
        await asyncio.sleep(0)  # it has begun to wait
        held.set_exception(KeyError("y"))
        assert await waiting == ({held}, set())

    run(scheduler, body)


def test_a_wait_leaves_large_results_in_the_cluster(keeping: KeepingScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        futures = [client.submit(operator.neg, number) for number in range(3)]
        for _ in range(2):
            assert await client.wait(futures) == (set(futures), set())
        assert keeping.requests == 0
        wanted = client.submit(operator.neg, 4)
        awaiting = asyncio.ensure_future(asyncio.wait([wanted]))  # which asks for the result
        await asyncio.sleep(0)
        assert await client.wait([wanted]) == ({wanted}, set())
        await until(lambda: keeping.requests == 1)
        awaiting.cancel()

    run(keeping, body)


def test_a_wait_that_is_cancelled_leaves_the_futures(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        scheduler.hold.set()
        future = client.submit(operator.neg, 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.wait([future])
        assert not has_callbacks(future)
        scheduler.hold.clear()
        assert await future == -1

    run(scheduler, body)


def test_a_wait_refuses_what_it_cannot_wait_for(scheduler: FakeScheduler, client: Client) -> None:
    async def other(inner: AsyncClient) -> AsyncFuture[int]:
        return inner.submit(operator.neg, 1)

    foreign = run(scheduler, other)

    async def body(inner: AsyncClient) -> None:
        future = inner.submit(operator.neg, 1)
        with pytest.raises(TypeError, match="takes several"):
            await inner.wait(future)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="Cannot wait for a ScalerFuture"):
            await inner.wait([future, client.submit(operator.neg, 1)])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="'SOME_COMPLETED'"):
            await inner.wait([future], return_when="SOME_COMPLETED")
        with pytest.raises(ValueError, match="belongs to another event loop"):
            await inner.wait([future, foreign])

    run(scheduler, body)
