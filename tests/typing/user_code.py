"""A program of a user, for type checkers: it is never run. Each line with an ignore comment must be an error, and no
other line may be one."""

import asyncio
import concurrent.futures
import math
import operator
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import as_completed, wait
from functools import partial
from typing import Any, NamedTuple, assert_type

from scaler import (
    ActorHandle,
    AsyncClient,
    Client,
    Executor,
    ObjectReference,
    ScalerFuture,
    SchedulerClusterCombo,
    Serializer,
)
from scaler.asynchronous.actors import AsyncActorHandle
from scaler.asynchronous.future import AsyncFuture
from scaler.client.future import ProfilingInfo


def add(left: int, right: int = 0) -> int:
    return left + right


def scale(value: float, *, factor: float) -> str:
    return str(value * factor)


def count(words: list[str]) -> dict[str, int]:
    return {word: len(word) for word in words}


def total(values: Sequence[int]) -> int:
    return sum(values)


def look_up(words: list[str], place: int) -> str:
    return words[place]


def five(a: int, b: str, c: float, d: bytes, e: bool) -> tuple[int, str]:
    return a, b


def seven(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> int:
    return a


class Point(NamedTuple):
    x: int
    y: int


class Model:
    def fit(self, data: list[float]) -> "Model":
        return self

    def __call__(self, value: float) -> bool:
        return value > 0


def norm(point: Point) -> float:
    return math.hypot(*point)


client = Client("tcp://127.0.0.1:2345", timeout_seconds=10, stream_output=True)


def submits() -> None:
    future = client.submit(add, 1, 2)
    assert_type(future, ScalerFuture[int])
    assert_type(future.result(timeout=1), int)
    assert_type(future.exception(), BaseException | None)
    assert_type(future.profiling_info(), ProfilingInfo)
    assert_type(client.submit(scale, 1, factor=2).result(), str)
    assert_type(client.submit(sorted, [3, 1], reverse=True).result(), list[int])
    assert_type(client.submit(print, "x").result(), None)
    assert_type(client.submit(Model).result(), Model)
    assert_type(client.submit(Model(), 1.0).result(), bool)
    assert_type(client.submit(Model().fit, [1.0]).result(), Model)
    assert_type(client.submit(partial(add, 1), 2).result(), int)
    assert_type(client.submit(lambda: "x").result(), str)
    assert_type(client.submit(add, 1, profiling=True), ScalerFuture[int])
    assert_type(client.submit_verbose(add, (1, 2), priority=3, capabilities=["gpu"]), ScalerFuture[int])

    one = client.submit(add, 1)
    words, text = client.send_object(["x"]), client.submit(lambda: "x")
    assert_type(client.submit(add, one), ScalerFuture[int])
    assert_type(client.submit(add, one, 2), ScalerFuture[int])
    assert_type(client.submit(add, 1, one), ScalerFuture[int])
    assert_type(client.submit(look_up, words, one), ScalerFuture[str])
    assert_type(client.submit(count, words), ScalerFuture[dict[str, int]])
    assert_type(client.submit(total, [one, one]), ScalerFuture[int])

    client.submit(look_up, one, 1)  # type: ignore
    client.submit(total, [text])  # type: ignore
    client.submit(add, "1")  # type: ignore
    client.submit(add)  # type: ignore
    client.submit(add, 1, 2, 3)  # type: ignore
    client.submit(scale, 1)  # type: ignore
    client.submit(scale, 1, factor="2")  # type: ignore
    client.submit(scale, 1, fctor=2)  # type: ignore
    client.submit(3)  # type: ignore
    client.submit_verbose(add, (1,), priorty=3)  # type: ignore
    string: str = client.submit(add, 1).result()  # type: ignore
    print(string)


def waits() -> None:
    futures = [client.submit(add, value) for value in range(3)]
    for each in as_completed([client.submit(add, 1)]):
        assert_type(each.result(), int)
    for each in as_completed(futures, timeout=3):
        assert_type(each.result(), int)
    done, unfinished = wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
    assert_type(done.pop().result(), int)
    assert_type(client.gather(futures), list[int])
    assert_type(client.gather({"a": futures[0]}), dict[str, int])
    assert_type(client.scatter([1, 2]), list[ScalerFuture[int]])
    assert_type(client.submit_verbose(add, (futures[0], 1)), ScalerFuture[int])
    print(client.wait(futures, timeout=1.0).done)
    futures[0].release()
    futures[0].add_done_callback(lambda future: print(future.result() + 1))
    by_future: dict[ScalerFuture[int], str] = dict.fromkeys(futures, "x")
    standard: concurrent.futures.Future[int] = futures[0]
    print(client.explain(futures[0]), by_future, standard, unfinished)


async def awaits() -> None:
    assert_type(await client.submit(add, 1), int)
    assert_type(await asyncio.wrap_future(client.submit(add, 1)), int)
    assert_type(await asyncio.gather(*[client.submit(scale, value, factor=1) for value in range(3)]), list[str])


async def numbers() -> AsyncIterator[int]:
    yield 1


async def coroutines() -> None:
    async with AsyncClient("tcp://127.0.0.1:2345", timeout_seconds=10) as async_client:
        future = async_client.submit(add, 1, 2)
        assert_type(future, AsyncFuture[int])
        assert_type(await future, int)
        assert_type(future.profiling_info(), ProfilingInfo)
        assert_type(await asyncio.gather(*[async_client.submit(add, n) for n in range(3)]), list[int])
        assert_type(await async_client.submit_verbose(add, (1, 2), priority=3), int)
        async with asyncio.TaskGroup() as group:
            assert_type(group.create_task(async_client.run(scale, 1, factor=2)), asyncio.Task[str])
        assert_type(await async_client.map(math.sqrt, range(10)), list[float])
        assert_type(await async_client.map(add, [1, 2], (3, 4), priority=2), list[int])
        assert_type(await async_client.starmap(add, [(1, 2)]), list[int])
        assert_type(async_client.imap(add, range(3), buffer_size=10), AsyncGenerator[int, None])
        assert_type(async_client.imap(add, numbers()), AsyncGenerator[int, None])
        assert_type(async_client.imap_unordered(add, [1], [2]), AsyncGenerator[int, None])
        assert_type(await async_client.send_object([1.0]), ObjectReference[list[float]])
        assert_type(await async_client.submit(add, future, 2), int)
        assert_type(await async_client.submit(total, [future, future]), int)
        assert_type(await async_client.submit(add, 1, key="one"), int)
        assert_type(await async_client.submit(add, 1, pure=True), int)
        assert_type(await async_client.submit_verbose(add, (future, 2), key="two"), int)
        assert_type(await async_client.scatter([1.0]), list[AsyncFuture[float]])
        done, pending = await async_client.wait([future], 1.0, asyncio.FIRST_COMPLETED)
        assert_type(done, set[AsyncFuture[int]])
        assert_type(await async_client.gather([future], progress=True), list[int])
        assert_type(await async_client.gather({"one": future}, progress=True), dict[str, int])
        await async_client.wait([future], progress=True)
        assert_type(async_client.imap(add, [1], [2], progress=True), AsyncGenerator[int, None])
        assert_type(await async_client.n_workers(), int)
        async with async_client.lock("name") as lock:
            assert_type(lock, None)

        async_client.submit(add, "1")  # type: ignore
        await async_client.run(add)  # type: ignore
        await async_client.map(add, ["1"])  # type: ignore
        async_client.imap(add, ["1"])  # type: ignore


def maps() -> None:
    assert_type(client.map(math.sqrt, range(10)), list[float])
    assert_type(client.map(add, [1, 2], priority=2, progress=True), list[int])
    assert_type(client.map(add, [1, 2], (3, 4)), list[int])
    assert_type(client.map(five, [1], ["b"], [1.5], [b""], [True]), list[tuple[int, str]])
    assert_type(client.map(seven, [1], [1], [1], [1], [1], [1], [1], retries=2), list[int])
    assert_type(client.map(lambda value: value + 1, [1, 2]), list[int])
    assert_type(client.map(lambda left, right: left * right, [1, 2], [3.0, 4.0]), list[float])
    assert_type(client.map(Model(), [1.0]), list[bool])
    assert_type(client.map(norm, [Point(1, 2)]), list[float])
    # tuples are argument lists, or single arguments
    assert_type(client.map(math.sqrt, [(value,) for value in range(3)]), list[float])
    assert_type(client.map(add, [(1, 2), (3, 4)]), list[int])
    assert_type(client.map(scale_item, {"a": 1.0}.items()), list[float])
    assert_type(client.map(name_item, {"a": 1.0}.items()), list[str])
    assert_type(client.map(len, zip([1], [2], strict=True)), list[int])

    assert_type(client.starmap(add, [(1, 2)], rerun=False), list[int])
    assert_type(client.starmap(scale_item, {"a": 1.0}.items()), list[float])
    assert_type(client.starmap(add, [[1], [1, 2]]), list[int])

    client.map(add, ["a"])  # type: ignore
    client.map(add, [("a", 1)])  # type: ignore
    client.map(add, [1], ["b"])  # type: ignore
    client.map(math.sqrt, 5)  # type: ignore
    client.map(add)  # type: ignore
    client.map(add, [1], prioriti=3)  # type: ignore
    client.map(add, [1], [2], [3])  # type: ignore
    client.starmap(add, [1, 2])  # type: ignore


def scale_item(name: str, value: float) -> float:
    return value


def name_item(item: tuple[str, float]) -> str:
    return item[0]


def lazy_maps() -> None:
    results = client.imap(add, range(10), buffer_size=5)
    assert_type(results, Generator[int, None, None])
    assert_type(next(results), int)
    results.close()
    names: Iterator[str] = client.imap_unordered(scale_both, [1.0], [2.0])
    assert_type(list(client.imap(operator.neg, [1])), list[int])
    assert_type(list(client.imap(seven, [1], [1], [1], [1], [1], [1], [1])), list[int])
    print(names)

    client.imap(add, ["x"])  # type: ignore
    client.imap(add, [(1, 2)])  # type: ignore
    client.imap_unordered(scale_both, [1.0])  # type: ignore


def scale_both(value: float, factor: float) -> str:
    return str(value * factor)


def references() -> None:
    reference = client.send_object(["a", "b"], name="words")
    assert_type(reference, ObjectReference[list[str]])
    assert_type(reference.name, str)
    assert_type(client.submit(count, reference).result(), dict[str, int])
    assert_type(client.submit(look_up, reference, place=1).result(), str)
    assert_type(client.map(count, [reference] * 3), list[dict[str, int]])
    assert_type(client.map(look_up, [(reference, place) for place in range(2)]), list[str])
    assert_type(client.starmap(look_up, [(reference, place) for place in range(2)]), list[str])
    counted: dict[str, Any] = client.get({"words": reference, "counted": (count, "words")}, ["counted"])
    print(counted)

    client.submit(look_up, reference, "1")  # type: ignore


def graphs() -> None:
    graph = {"a": 3, "b": 4, "square": (pow, "a", "b")}
    assert_type(client.get(graph, ["square"]), dict[str, Any])
    futures = client.get(graph, ["square"], block=False)
    assert_type(futures, dict[str, ScalerFuture[Any]])
    assert_type(futures["square"].result(), Any)


class Text(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return repr(obj).encode()

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        return payload.decode()


def the_rest() -> None:
    with SchedulerClusterCombo(n_workers=2, per_worker_capabilities={"gpu": 1}) as combo:
        with Client(combo.get_address(), serializer=Text) as inner, Client(serializer=Text()) as other:
            assert_type(inner, Client)
            assert_type(other.identity, bytes)
        Client(2345)  # type: ignore


def executors() -> None:
    executor: concurrent.futures.Executor = client.as_executor()
    with Executor(n_workers=2) as own:
        assert_type(own.submit(add, 1, 2), ScalerFuture[int])
        assert_type(own.submit(scale, 1, factor=2).cancel(running=True), bool)
        assert_type(own.map(count, [["x"]], timeout=1, chunksize=2, buffersize=3), Iterator[dict[str, int]])
        own.submit(add, "1")  # type: ignore[arg-type]
    executor.shutdown(wait=False, cancel_futures=True)


class Tally:
    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, number: int) -> int:
        self.value += number
        return self.value


async def actors_of_coroutines(client: AsyncClient) -> None:
    tally = await client.actor(Tally, 1)
    assert_type(tally, AsyncActorHandle[Tally])
    await client.actor(Tally, "1")  # type: ignore
    future: AsyncFuture[int] = tally.add(1)
    assert await future == 2
    assert_type(await client.actor_verbose(Tally, (1,), name="tally"), AsyncActorHandle[Tally])
    (await client.get_actor("tally")).kill()


def actors(client: Client) -> None:
    tally = client.actor(Tally, 1)
    assert_type(tally, ActorHandle[Tally])
    client.actor(Tally, "1")  # type: ignore
    future: ScalerFuture[int] = tally.add(1)
    assert future.result() == 2
    assert_type(client.actor_verbose(Tally, (1,), name="tally", max_restarts=3), ActorHandle[Tally])
    client.actor_verbose(Tally, (1,), name=1)  # type: ignore
    found = client.get_actor("tally")
    found.add(1).result()
    tally.kill()
