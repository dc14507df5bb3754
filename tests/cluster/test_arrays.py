"""Arrays in graphs: what tasks make for one another, in Dask's dialect and in the plain one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy
import pytest

from scaler import Client

SMALL, LARGE = 1000, 10_000
"""Numbers in arrays that travel with messages, and that are in the object store."""

last: Any = None


def make(count: int, value: float = 1.0) -> Any:
    global last
    last = numpy.full(count, value)
    return last


def make_part(count: int) -> Any:
    global last
    last = numpy.ones(100 * count)[::100]
    return last


def is_last(array: Any) -> bool:
    return array is last


def total(*arrays: Any) -> float:
    return float(sum(array.sum() for array in arrays))


def change(array: Any) -> float:
    array += 1
    return total(array)


def total_after_death(array: Any, marker: str) -> float:
    """The first one ends its worker process, with all that it keeps."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return total(array)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def identical(client: Client, graph: dict[Any, Any]) -> bool:
    """Whether the task ``seen`` got the very object that another had made."""
    pytest.importorskip("dask")
    return bool(client.get({("seen", 0): graph.pop("seen"), **graph}, ("seen", 0)))


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_dask_s_tasks_are_handed_arrays_as_they_are(single_client: Client, count: int) -> None:
    assert identical(single_client, {("made", 0): (make, count), "seen": (is_last, ("made", 0))})


def test_what_would_keep_more_alive_is_not_handed_on(single_client: Client) -> None:
    """A part of a larger array; one that is large itself; one that nobody could count."""
    for made in ((make_part, LARGE), (make, 1_000_000)):
        assert not identical(single_client, {("made", 0): made, "seen": (is_last, ("made", 0))})


def test_tasks_whose_memory_is_measured_share_nothing(single_combo: Any) -> None:
    with Client(single_combo.get_address(), profiling=True) as client:
        assert not identical(client, {("made", 0): (make, LARGE), "seen": (is_last, ("made", 0))})


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_tasks_of_plain_graphs_may_change_their_arguments(single_client: Client, count: int) -> None:
    graph: dict[str, Any] = {"count": count, "made": (make, "count"), **dict.fromkeys("abc", (change, "made"))}
    assert single_client.get(graph, list("abc")) == dict.fromkeys("abc", 2.0 * count)
    assert single_client.get({**graph, "seen": (is_last, "made")}, ["seen"]) == {"seen": False}


def test_what_a_dead_worker_process_kept_is_not_lost(client: Client, tmp_path: Path) -> None:
    pytest.importorskip("dask")
    marker = str(tmp_path / "died")
    graph: dict[Any, Any] = {"all": (sum, [("total", index) for index in range(40)])}
    for index in range(40):
        graph["made", index] = (make, LARGE, float(index))
        graph["total", index] = (total_after_death, ("made", index), marker)
    assert client.get(graph, "all") == LARGE * sum(range(40))
    assert os.path.exists(marker)


def test_transposed_and_reduced(client: Client) -> None:
    array = pytest.importorskip("dask.array")
    numbers = numpy.arange(1_000_000.0).reshape(1000, 1000)
    for chunk in (50, 400):
        chunked = array.from_array(numbers, chunks=chunk)
        result = ((chunked + chunked.T) * 2).sum(axis=0)
        assert (result.compute(scheduler=client) == ((numbers + numbers.T) * 2).sum(axis=0)).all()
        assert (chunked[::7, 3:].rechunk(90).compute(scheduler=client) == numbers[::7, 3:]).all()
