"""Calls with keys: the future of the first call, as long as it is alive."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy
import pytest

from scaler import Client
from tests.support.functions import increment
from tests.support.waiting import wait_until


def add(left: Any, right: Any = 0) -> Any:
    return left + right


def with_key(value: int, key: str = "") -> str:
    return f"{key}{value}"


def with_any(**names: int) -> list[str]:
    return sorted(names)


def test_the_same_key_is_the_same_future(client: Client) -> None:
    first = client.submit(increment, 1, key="one")
    assert client.submit(increment, 5, key="one") is first
    assert client.submit_verbose(increment, (6,), key="one") is first
    assert client.submit(increment, 1, key=("one", 2)) is not first
    assert first.result() == 2


def test_a_key_is_free_when_its_future_is_gone(client: Client) -> None:
    first = client.submit(increment, 1, key="one")
    assert first.result() == 2
    del first
    gc.collect()
    assert client.submit(increment, 5, key="one").result() == 6


def test_a_cancelled_future_has_no_key(client: Client) -> None:
    first = client.submit(increment, 1, key="one")
    wait_until(lambda: first.cancel() or first.done())
    second = client.submit(increment, 5, key="one")
    assert first.cancelled() == (second is not first)


def test_a_call_that_is_refused_takes_no_key(client: Client) -> None:
    with pytest.raises(TypeError, match="increment"):
        client.submit(increment, key="one")
    assert client.submit(increment, 1, key="one").result() == 2


def test_threads_get_one_future(client: Client) -> None:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(client.submit(increment, 1, key=1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1 and found[0].result() == 2


def test_a_pure_call_is_known_by_function_and_arguments(client: Client) -> None:
    array = numpy.arange(100_000)
    first = client.submit(add, array, right=1, pure=True)
    assert client.submit(add, array.copy(), right=1, pure=True) is first
    assert client.submit(add, array, right=2, pure=True) is not first
    assert client.submit(add, array + 1, right=1, pure=True) is not first
    assert client.submit(add, array, 1, pure=True) is not first
    assert client.submit(numpy.add, 1, 1, pure=True).result() == 2


def test_futures_and_objects_in_pure_calls(client: Client) -> None:
    one, other = client.submit(increment, 1), client.submit(increment, 1)
    sent = client.send_object([1])
    first = client.submit(add, one, pure=True)
    assert client.submit(add, one, pure=True) is first
    assert client.submit(add, other, pure=True) is not first
    listed = client.submit(add, [one, 1], [other], pure=True)
    assert client.submit(add, [one, 1], [other], pure=True) is listed
    assert client.submit(add, [one, 1], [one], pure=True) is not listed
    with_object = client.submit(add, sent, [2], pure=True)
    assert client.submit(add, sent, [2], pure=True) is with_object
    assert [first.result(), listed.result(), with_object.result()] == [2, [2, 1, 2], [1, 2]]


def test_names_that_belong_to_the_function(client: Client) -> None:
    assert client.submit(with_key, 1, key="a").result() == "a1"
    assert client.submit(with_any, key=1, pure=2).result() == ["key", "pure"]
    assert client.submit(sorted, [1, -3, 2], key=abs).result() == [1, 2, -3]
    assert client.submit(max, [1, -3, 2], key=abs).result() == -3
    first = client.submit_verbose(with_key, (1,), {"key": "a"}, key="one")
    assert client.submit_verbose(with_key, (2,), key="one") is first and first.result() == "a1"


@pytest.mark.parametrize("key", [[1], {"a": 1}, ("a", [1])])
def test_a_key_that_cannot_be_hashed(client: Client, key: Any) -> None:
    for submit in (
        lambda: client.submit(increment, 1, key=key),
        lambda: client.submit_verbose(increment, (1,), key=key),
    ):
        with pytest.raises(TypeError, match="Cannot use this key: unhashable"):
            submit()


def test_a_key_or_a_pure_call(client: Client) -> None:
    with pytest.raises(TypeError, match="pass one of them"):
        client.submit(increment, 1, key="one", pure=True)


def test_no_key_and_an_impure_call_are_plain(client: Client) -> None:
    assert client.submit(increment, 1, pure=False) is not client.submit(increment, 1, pure=False)
    assert client.submit(increment, 1, key=None).result() == 2
