"""One loaded copy of a sent object per worker process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ProcessorDiedError
from tests.support.functions import identity
from tests.support.waiting import wait_until

LIMIT_BYTES = 4_000_000


class Counted:
    """Counts how often it was loaded in this process."""

    loads = 0

    def __init__(self, size: int) -> None:
        self.array = numpy.ones(size)

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, (self.array,)


def _loaded(array: Any) -> Counted:
    Counted.loads += 1
    value = object.__new__(Counted)
    value.array = array
    return value


def loads_of(value: Counted) -> tuple[int, int, int]:
    return os.getpid(), id(value), Counted.loads


def loads_so_far() -> int:
    return Counted.loads


def append(items: list[int]) -> int:
    items.append(0)
    return len(items)


def write(array: Any) -> float:
    array[0] += 1
    return float(array[0])


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.fixture
def client() -> Iterator[Client]:
    with (
        SchedulerClusterCombo(n_workers=1, per_worker_loaded_objects_size=LIMIT_BYTES) as combo,
        Client(combo.get_address()) as client,
    ):
        yield client


def test_an_object_is_loaded_once(client: Client) -> None:
    reference = client.send_object(Counted(1000))
    assert len(set(client.map(loads_of, [reference] * 20))) == 1
    assert [client.submit(loads_of, reference).result()[2] for _ in range(3)] == [1] * 3


def test_every_task_may_have_its_own(client: Client) -> None:
    reference = client.send_object([1], shared=False)
    assert client.map(append, [reference] * 5) == [2] * 5
    array = client.send_object(numpy.zeros(100_000), shared=False)
    assert client.map(write, [array] * 5) == [1.0] * 5


def test_changes_of_a_shared_list_are_visible_in_its_process(client: Client) -> None:
    assert client.map(append, [client.send_object([1])] * 3) == [2, 3, 4]


@pytest.mark.parametrize("size", [10, 10_000, 100_000])
def test_shared_arrays_are_read_only(client: Client, size: int) -> None:
    reference = client.send_object(numpy.zeros(size))
    with pytest.raises(ValueError, match="read-only"):
        client.submit(write, reference).result()
    assert client.submit(float, client.submit(numpy.sum, reference).result()).result() == 0


def test_plain_arguments_stay_private(client: Client) -> None:
    array, items = numpy.zeros(200_000), list(range(100_000))
    reference = client.send_object(array)
    assert client.map(write, [array] * 5) == [1.0] * 5
    assert client.map(append, [items] * 5) == [100_001] * 5
    with pytest.raises(ValueError, match="read-only"):
        client.submit(write, reference).result()


def test_immutable_arguments_are_shared(client: Client) -> None:
    data = b"x" * 100_000
    identities = client.map(id, [data] * 10)
    assert len(set(identities[2:])) == 1


def test_what_exceeds_the_limit_is_loaded_again(client: Client) -> None:
    references = [client.send_object(Counted(300_000)) for _ in range(2)]
    for _ in range(2):
        for reference in references:
            client.submit(loads_of, reference).result()
    assert client.submit(loads_so_far).result() == 4


def test_nothing_is_shared_with_a_limit_of_zero() -> None:
    with (
        SchedulerClusterCombo(n_workers=1, per_worker_loaded_objects_size=0) as combo,
        Client(combo.get_address()) as client,
    ):
        reference = client.send_object(Counted(1000))
        assert [client.submit(loads_of, reference).result()[2] for _ in range(3)] == [1, 2, 3]


def test_released_objects_are_freed() -> None:
    with SchedulerClusterCombo(n_workers=1) as combo, Client(combo.get_address()) as client:
        before = client.submit(resident).result()
        reference = client.send_object(b"x" * 200_000_000)
        assert client.submit(len, reference).result() == 200_000_000
        assert client.submit(resident).result() > before + 150_000_000
        del reference
        wait_until(lambda: client.submit(resident).result() < before + 50_000_000)


def test_failures_to_load_are_not_kept(client: Client) -> None:
    reference = client.send_object(FailsOnce())
    with pytest.raises(Exception, match="not yet"):
        client.submit(identity, reference).result()
    assert client.submit(type, reference).result() is dict


class FailsOnce:
    attempts = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _fail_once, ()


def _fail_once() -> dict[str, int]:
    FailsOnce.attempts += 1
    if FailsOnce.attempts == 1:
        raise RuntimeError("not yet")
    return {}


def test_a_worker_process_that_dies_loads_it_again(client: Client) -> None:
    reference = client.send_object(Counted(1000))
    first = client.submit(loads_of, reference).result()
    with pytest.raises(ProcessorDiedError):
        client.submit_verbose(os._exit, (1,), rerun=False).result()
    second = client.submit(loads_of, reference).result()
    assert first[0] != second[0] and second[2] == 1


def test_tasks_with_measured_memory_share_too(client: Client) -> None:
    reference, other = client.send_object(Counted(1000)), client.send_object(Counted(1000))
    client.submit(loads_of, other).result()
    for _ in range(2):
        client.submit_verbose(loads_of, (reference,), profiling=True).result()
    assert client.submit(loads_so_far).result() == 2
    assert client.submit(loads_of, other).result()[2] == 3
