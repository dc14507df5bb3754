"""AsyncClient with a scheduler that runs tasks itself, and its parts alone."""

from __future__ import annotations

import asyncio
import gc
import operator
import os
import pickle
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import wait
from typing import Any

import pytest

from scaler import AsyncClient, Client
from scaler.asynchronous.loading import PickleReader, considerate, loads_in_frames
from scaler.asynchronous.sizes import LARGE_BYTES, are_large, are_small
from scaler.utility.exceptions import ClientQuitException
from scaler_protocol.messages import Cancel
from scaler_protocol.objects.layout import load, plan
from tests.unit.client.fake_scheduler import FakeScheduler
from tests.unit.client.graph_scheduler import GraphScheduler


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with FakeScheduler() as running:
        yield running


def run(scheduler: FakeScheduler, body: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with AsyncClient(scheduler.address) as client:
            return await body(client)

    return asyncio.run(main())


def test_a_batch_of_outcomes_wakes_the_loop_once(scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: AsyncClient) -> None:
        wakes = 0
        loop = asyncio.get_running_loop()
        original = loop.call_soon_threadsafe

        def count(*arguments: Any, **options: Any) -> Any:
            nonlocal wakes
            wakes += 1
            return original(*arguments, **options)

        monkeypatch.setattr(loop, "call_soon_threadsafe", count)
        assert await asyncio.gather(*[client.submit(operator.neg, n) for n in range(2000)]) == [-n for n in range(2000)]
        assert wakes < 200

    run(scheduler, body)


def test_cancels_of_one_pass_of_the_loop_leave_together(scheduler: FakeScheduler) -> None:
    scheduler.hold.set()

    async def body(client: AsyncClient) -> None:
        futures = [client.submit(operator.neg, n) for n in range(100)]
        while not scheduler.held or sum(task.count for _, task in scheduler.held) < 100:
            await asyncio.sleep(0.01)
        for future in futures:
            assert future.cancel()
        assert not futures[0].cancel() and futures[0].cancelled()
        while not (cancels := [each for each in scheduler.seen if isinstance(each, Cancel)]):
            await asyncio.sleep(0.01)
        assert [len(column.tasks) for each in cancels for column in each.columns] == [100]
        scheduler.hold.clear()  # results of cancelled tasks are dropped
        assert await client.submit(operator.neg, 7) == -7

    run(scheduler, body)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.map(operator.neg, [1, "x"]),
        lambda client: client.starmap(operator.neg, [(1,), ("x",)]),
        lambda client: client.get({"a": "text", "b": (operator.neg, "a")}, ["b"]),
    ],
)
def test_a_failure_shows_only_frames_of_the_user(call: Callable[[AsyncClient], Awaitable[Any]]) -> None:
    async def body(client: AsyncClient) -> None:
        with pytest.raises(TypeError) as caught:
            await call(client)
        frames = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
        assert frames[0] == __name__ and not [each for each in frames if each.startswith("scaler")]

    with GraphScheduler() as scheduler:
        run(scheduler, body)


def test_gather_returns_the_same_containers(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        first, second = (client.submit(operator.neg, number) for number in (1, 2))
        nested = {"a": [first, (second, 7)], "b": {first}}
        assert await client.gather(nested) == {"a": [-1, (-2, 7)], "b": {-1}}
        assert await client.gather([]) == []
        failing = client.submit(operator.neg, "x")
        with pytest.raises(TypeError) as caught:
            await client.gather([first, failing])
        frames = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
        assert frames[0] == __name__ and not [each for each in frames if each.startswith("scaler")]

    run(scheduler, body)


def test_a_gather_that_is_cancelled_cancels_its_futures(scheduler: FakeScheduler) -> None:
    scheduler.hold.set()

    async def body(client: AsyncClient) -> None:
        future = client.submit(operator.neg, 1)
        gathering = asyncio.ensure_future(client.gather([future]))
        await asyncio.sleep(0)
        gathering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gathering
        assert future.cancelled()
        scheduler.hold.clear()

    run(scheduler, body)


def test_a_coroutine_that_never_waits_gets_its_results(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        future = client.submit(operator.neg, 1)
        while not future.done():
            await asyncio.sleep(0)
        assert future.result() == -1 and future.task_id

    run(scheduler, body)


def test_a_loop_that_cannot_watch_descriptors_is_served_by_the_background_thread(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    async def main() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
        async with AsyncClient(scheduler.address) as client:
            assert await client.submit(operator.neg, 1) == -1

    asyncio.run(main())


def test_a_client_that_is_not_closed_is_reported_and_the_loop_stops_watching_it(scheduler: FakeScheduler) -> None:
    async def main() -> None:
        client = await AsyncClient(scheduler.address).open()
        link = client._link
        with pytest.warns(ResourceWarning, match="not closed"):
            del client
            gc.collect()
        await asyncio.sleep(0.01)
        assert not asyncio.get_running_loop().remove_reader(link.client_io.reading_fd)

    asyncio.run(main())


class Slow:
    """A large value that is pickled when it may be."""

    nbytes = LARGE_BYTES
    may_be = threading.Event()

    def __reduce__(self) -> Any:
        self.may_be.wait(30)
        return int, ()


def test_a_call_that_is_pickled_while_its_client_is_closed_is_cancelled(scheduler: FakeScheduler) -> None:
    async def main() -> None:
        async with AsyncClient(scheduler.address) as client:
            future = client.submit(operator.neg, Slow())
        Slow.may_be.set()
        with pytest.raises(asyncio.CancelledError):
            await future

    asyncio.run(main())


def test_a_forked_child_must_make_its_own(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        pid = os.fork()
        if not pid:
            try:
                client.submit(operator.neg, 1)
            except ClientQuitException as error:
                os._exit(0 if "forked" in str(error) else 2)
            finally:
                os._exit(1)
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert await client.submit(operator.neg, 1) == -1

    run(scheduler, body)


def test_what_belongs_to_a_loop_is_not_sent(scheduler: FakeScheduler) -> None:
    async def body(client: AsyncClient) -> None:
        for mine in (client, client.lock("name"), client.submit(operator.neg, 1)):
            with pytest.raises(TypeError, match="event loop"):
                pickle.dumps(mine)
        with pytest.raises(ValueError, match="at least 1"):
            client.imap(operator.neg, [1], buffer_size=0)
        with pytest.raises(TypeError, match="at least one iterable"):
            client.imap(operator.neg)

        async def one() -> Any:
            yield 1

        with pytest.raises(TypeError, match="one that is asynchronous"):
            client.imap(operator.add, one(), one())

    run(scheduler, body)


def test_an_address_that_is_wrong_is_refused_when_the_client_opens() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="address"):
            await AsyncClient("nonsense").open()

    asyncio.run(main())


# ---- callbacks of the other futures ----------------------------------------------------------------------------------


def test_callbacks_are_called_once_and_in_order(scheduler: FakeScheduler, client: Client) -> None:
    scheduler.hold.set()
    future = client.submit(operator.neg, 1)
    called: list[str] = []
    future.add_done_callback(lambda _: called.append("first"))
    future.add_done_callback(lambda _: called.append("second"))
    waiting = threading.Thread(target=wait, args=([future],))  # makes the condition
    waiting.start()
    future.add_done_callback(lambda _: called.append("third"))
    scheduler.hold.clear()
    assert future.result(30) == -1
    waiting.join(30)
    future.add_done_callback(lambda _: called.append("late"))
    assert called == ["first", "second", "third", "late"]


def test_a_callback_is_called_when_its_future_is_cancelled(scheduler: FakeScheduler, client: Client) -> None:
    scheduler.hold.set()
    future = client.submit(operator.neg, 1)
    called: list[bool] = []
    future.add_done_callback(lambda ended: called.append(ended.cancelled()))
    assert future.cancel() and called == [True]


# ---- sizes and loading -----------------------------------------------------------------------------------------------


class Sized:
    def __init__(self, nbytes: Any) -> None:
        self.nbytes = nbytes


@pytest.mark.parametrize(
    "value", [bytes(LARGE_BYTES), [0] * 1000, {"a": "x" * LARGE_BYTES}, (bytes(LARGE_BYTES),), Sized(LARGE_BYTES)]
)
def test_what_is_obviously_large(value: Any) -> None:
    assert are_large([1, value]) and not are_small([1, value])


@pytest.mark.parametrize("value", [1, None, "x", [1, 2], {"a": b"x"}, Sized("many"), Sized(8), [[bytes(LARGE_BYTES)]]])
def test_what_is_not_obviously_large(value: Any) -> None:
    assert not are_large([value])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", [list(range(50_000)), bytes(3_000_000), {"a": [1.5, "x", operator.neg]}])
def test_a_pickle_is_loaded_in_frames(value: Any, protocol: int) -> None:
    assert loads_in_frames(memoryview(pickle.dumps(value, protocol))) == value


def test_buffers_and_cut_pickles() -> None:
    array = bytearray(b"x" * 100)
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(pickle.PickleBuffer(array), 5, buffer_callback=buffers.append)
    laid_out = bytearray(plan(pickled, buffers).to_bytes())
    assert bytes(considerate(load)(laid_out)) == bytes(array)
    assert considerate(pickle.loads) is pickle.loads
    with pytest.raises((EOFError, pickle.UnpicklingError)):
        loads_in_frames(pickle.dumps(list(range(1000)))[:-10])
    assert PickleReader(b"one\ntwo").readline() == b"one\n"
