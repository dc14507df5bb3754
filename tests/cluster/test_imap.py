"""imap and imap_unordered: lazy and bounded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from scaler import Client
from tests.cluster.conftest import Gate
from tests.support import functions

Both = pytest.mark.parametrize("name", ["imap", "imap_unordered"])


def test_imap_is_in_order(client: Client) -> None:
    delays = [0.02, 0.0, 0.01, 0.0] * 5
    assert list(client.imap(functions.sleep_and_return, delays, range(20))) == list(range(20))


def test_imap_unordered_gives_what_is_ready_first(client: Client, gate: Gate) -> None:
    def run(value: int, started: str, path: str) -> int:
        return functions.wait_at_gate(started, path, value) if value == 0 else value

    results = client.imap_unordered(run, range(4), *[itertools.repeat(path) for path in gate.paths])
    early = [next(results) for _ in range(3)]
    gate.open()
    assert sorted(early) == [1, 2, 3]
    assert list(results) == [0]


@Both
def test_an_endless_input_is_read_lazily(client: Client, name: str) -> None:
    read = 0

    def numbers() -> Iterator[int]:
        nonlocal read
        for read in itertools.count():  # noqa: UP028
            yield read

    results = getattr(client, name)(functions.square, numbers(), buffer_size=20)
    taken = list(itertools.islice(results, 50))
    assert set(taken) <= {n * n for n in range(100)}
    assert read <= 50 + 20 + 2
    results.close()


@Both
def test_an_endless_input_with_the_default_buffer(client: Client, name: str) -> None:
    results = getattr(client, name)(functions.square, itertools.count())
    taken = list(itertools.islice(results, 1000))
    assert len(set(taken)) == 1000
    results.close()
    assert client.submit(functions.square, 3).result() == 9


@Both
def test_tuples_are_never_unpacked(client: Client, name: str) -> None:
    assert sorted(getattr(client, name)(len, [(1, 2), (3,)])) == [1, 2]


@Both
def test_several_iterables(client: Client, name: str) -> None:
    assert sorted(getattr(client, name)(functions.add, [1, 2, 3], [10, 20, 30, 40])) == [11, 22, 33]


@Both
def test_empty_input(client: Client, name: str) -> None:
    assert list(getattr(client, name)(functions.square, [])) == []


@Both
def test_a_failure_is_raised(client: Client, name: str) -> None:
    def run(value: int) -> int:
        if value == 10:
            raise ValueError("ten")
        return value

    with pytest.raises(ValueError, match="ten"):
        list(getattr(client, name)(run, range(100)))
    assert client.submit(functions.square, 3).result() == 9


@Both
def test_many(client: Client, name: str) -> None:
    assert sum(getattr(client, name)(functions.identity, range(50_000))) == sum(range(50_000))


@Both
def test_an_iterator_left_half_read_does_no_harm(client: Client, name: str) -> None:
    results = getattr(client, name)(functions.square, range(1000))
    next(results)
    del results
    assert client.map(functions.square, range(10)) == [n * n for n in range(10)]


@Both
def test_an_input_that_fails_raises_its_own_error(client: Client, name: str) -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise LookupError("no more input")

    with pytest.raises(LookupError, match="no more input"):
        list(getattr(client, name)(functions.square, numbers()))


@pytest.mark.parametrize("buffer_size", [0, -1])
def test_a_buffer_below_one_is_a_value_error(client: Client, buffer_size: int) -> None:
    with pytest.raises(ValueError):
        list(client.imap(functions.square, [1], buffer_size=buffer_size))
