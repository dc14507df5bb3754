"""Values of every size, up to gigabytes; and the sizes at which the way of travelling changes."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError
from tests.support import functions
from tests.support.memory import need_memory
from tests.support.waiting import wait_until

INLINE_LIMIT = 32 * 1024
MESSAGE_LIMIT = 1024 * 1024


def fill(size: int, byte: int = 120) -> bytes:
    return bytes([byte]) * size


EDGES = [
    limit + difference
    for limit in (INLINE_LIMIT, MESSAGE_LIMIT)
    for difference in (-100, -60, -40, -30, -20, -12, -5, -1, 0, 1, 100)
]


@pytest.mark.parametrize("size", [0, 1, *EDGES, 4 * MESSAGE_LIMIT, 10_000_000])
def test_both_ways(client: Client, size: int) -> None:
    value = fill(size)
    assert client.submit(functions.identity, value).result(timeout=60) == value


def test_many_arguments_around_the_inline_limit(client: Client) -> None:
    values = [fill(INLINE_LIMIT + difference, difference % 251) for difference in range(-300, 300, 3)]
    assert client.map(functions.identity, values) == values


def test_many_arguments_in_one_task(client: Client) -> None:
    values = [fill(20_000, number % 251) for number in range(200)]

    def lengths(*arguments: bytes) -> list[int]:
        return [len(argument) for argument in arguments]

    assert client.submit(lengths, *values).result() == [20_000] * 200


def test_small_and_large_in_one_task(client: Client) -> None:
    large = fill(2_000_000)
    assert client.submit(functions.add, b"small", large).result() == b"small" + large
    assert client.submit(functions.add, left=large, right=b"small").result() == large + b"small"


def test_many_large_results_are_each_fetched(client: Client) -> None:
    futures = [client.submit(fill, 300_000, number) for number in range(60)]
    for number, future in reversed(list(enumerate(futures))):
        assert future.result(timeout=60) == fill(300_000, number)


def test_large_results_of_map(client: Client) -> None:
    assert client.map(fill, [100_000] * 50, range(50)) == [fill(100_000, number) for number in range(50)]


def test_a_result_read_twice(client: Client) -> None:
    future = client.submit(fill, 5_000_000)
    assert future.result() == future.result()


def test_asking_for_the_exception_does_not_fetch_a_large_result(client: Client) -> None:
    future = client.submit(fill, 5_000_000)
    assert future.exception(timeout=30) is None
    assert future.exception() is None and not future._loaded
    assert len(future.result(timeout=60)) == 5_000_000


def unloadable() -> object:
    class Unloadable:
        def __reduce__(self) -> tuple:  # type: ignore[type-arg]
            return int, (fill(1_000_000),)

    return Unloadable()


def test_awaiting_a_large_result_that_cannot_be_loaded(client: Client) -> None:
    async def wait() -> object:
        return await asyncio.wait_for(asyncio.wrap_future(client.submit(unloadable)), 30)

    with pytest.raises(DeserializeObjectError):
        asyncio.run(wait())


def test_threads_read_one_large_result(client: Client) -> None:
    future = client.submit(fill, 20_000_000)
    with ThreadPoolExecutor(4) as pool:
        lengths = [pool.submit(lambda: len(future.result(timeout=60))) for _ in range(4)]
        assert [length.result(timeout=40) for length in lengths] == [20_000_000] * 4


def test_large_results_that_nobody_reads_do_not_pile_up(client: Client) -> None:
    for number in range(20):
        future = client.submit(fill, 10_000_000, number)
        wait_until(future.done)
        del future
    gc.collect()
    assert client.submit(functions.square, 3).result() == 9


def test_arrays_behave_the_same_above_and_below_the_limit(client: Client) -> None:
    def change(array: numpy.ndarray) -> numpy.ndarray:
        array += 1
        return array

    for length in (10, 1_000_000):
        array = numpy.zeros(length)
        result = client.submit(change, array).result(timeout=60)
        result += 1
        assert result.sum() == 2 * length and array.sum() == 0


def test_a_long_exception(client: Client) -> None:
    def fail(length: int) -> None:
        raise ValueError("x" * length)

    with pytest.raises(ValueError) as caught:
        client.submit(fail, 100_000).result(timeout=60)
    assert len(str(caught.value)) == 100_000
    with pytest.raises(ValueError, match="x{1000}"):
        client.submit(fail, 3_000_000).result(timeout=60)


def test_a_large_closure(client: Client) -> None:
    table = list(range(100_000))
    assert client.map(lambda index: table[index], [0, 99_999, 5]) == [0, 99_999, 5]


def test_cancelling_an_upload_on_its_way(client: Client) -> None:
    future = client.submit_verbose(len, (fill(50_000_000),), {}, capabilities={"absent": 1})
    assert future.cancel()
    assert client.submit(len, fill(1_000_000)).result(timeout=60) == 1_000_000


def test_leaving_while_an_upload_is_on_its_way(combo) -> None:  # type: ignore[no-untyped-def]
    with Client(combo.get_address()) as leaving:
        leaving.submit(len, fill(100_000_000))
    with Client(combo.get_address()) as client:
        assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_more_than_half_a_gibibyte_both_ways(client: Client) -> None:
    need_memory(5)
    size = 2**29 + 300
    value = fill(size)
    result = client.submit(functions.identity, value).result(timeout=110)
    assert len(result) == size and result == value


def test_a_function_of_half_a_gigabyte_mapped_over_ten_thousand_tasks(client: Client) -> None:
    need_memory(5)
    ballast = fill(500_000_000)

    def measure(value: int) -> int:
        return value + len(ballast)

    assert client.map(measure, range(10_000)) == [500_000_000 + number for number in range(10_000)]


def test_thousands_of_values_just_below_the_inline_limit(client: Client) -> None:
    """Far more bytes wait at an agent than fit into one message to a worker process."""
    values = [bytes([number % 251]) * 30_000 for number in range(2_000)]
    assert client.map(functions.identity, values) == values


def test_hundreds_of_functions_just_below_the_inline_limit(client: Client) -> None:
    def make(number: int):  # type: ignore[no-untyped-def]
        ballast = bytes([number % 251]) * 30_000
        return lambda: (number, len(ballast))

    futures = [client.submit(make(number)) for number in range(300)]
    assert [future.result(timeout=60) for future in futures] == [(number, 30_000) for number in range(300)]
