"""Dask on real processes: stores that several tasks write to, callbacks, generators."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from tests.support import functions

dask = pytest.importorskip("dask")
numpy = pytest.importorskip("numpy")
array = pytest.importorskip("dask.array")
dask_utils = pytest.importorskip("dask.utils")

SIDE = 60
BLOCK = 10
CHUNK = 7


class BlockStore:
    """An array in files of one block each, as in many formats: who writes a part of a block reads and writes all of
    it."""

    shape = (SIDE, SIDE)
    dtype = numpy.dtype(float)
    ndim = 2

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for row in range(SIDE // BLOCK):
            for column in range(SIDE // BLOCK):
                self._write(row, column, numpy.zeros((BLOCK, BLOCK)))

    def __setitem__(self, place: tuple[slice, slice], value: Any) -> None:
        rows, columns = place
        for row in range(rows.start // BLOCK, (rows.stop - 1) // BLOCK + 1):
            for column in range(columns.start // BLOCK, (columns.stop - 1) // BLOCK + 1):
                self._change(row, column, rows, columns, value)

    def _change(self, row: int, column: int, rows: slice, columns: slice, value: Any) -> None:
        block = self._read(row, column)
        top, bottom = max(rows.start, row * BLOCK), min(rows.stop, (row + 1) * BLOCK)
        left, right = max(columns.start, column * BLOCK), min(columns.stop, (column + 1) * BLOCK)
        part = value[top - rows.start : bottom - rows.start, left - columns.start : right - columns.start]
        block[top - row * BLOCK : bottom - row * BLOCK, left - column * BLOCK : right - column * BLOCK] = part
        time.sleep(0.0002)  # the others get their chance
        self._write(row, column, block)

    def __getitem__(self, place: Any) -> Any:
        """Fails when two read at the same time."""
        with (self.folder / "reading").open("x"):
            values = numpy.block([[self._read(row, column) for column in range(6)] for row in range(6)])[place]
        (self.folder / "reading").unlink()
        return values

    def _read(self, row: int, column: int) -> Any:
        return numpy.load(self.folder / f"{row}.{column}.npy")

    def _write(self, row: int, column: int, block: Any) -> None:
        temporary = self.folder / f"{row}.{column}.{threading.get_native_id()}.npy"
        numpy.save(temporary, block)
        temporary.replace(self.folder / f"{row}.{column}.npy")

    def total(self) -> float:
        return float(sum(self._read(row, column).sum() for row in range(6) for column in range(6)))


# ---- locks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", ["True", "token", "cluster"])
def test_nothing_is_lost_of_what_several_tasks_store(client: Client, tmp_path: Path, lock: str) -> None:
    """With a lock that excludes within a process only, up to a hundred of 3,600 values were lost."""
    locks = {"True": True, "token": dask_utils.SerializableLock("token"), "cluster": client.lock("store")}
    store = BlockStore(tmp_path)
    array.store(array.ones((SIDE, SIDE), chunks=CHUNK), store, lock=locks[lock], scheduler=client)
    assert store.total() == SIDE * SIDE


def test_several_stores_of_one_graph_have_a_lock_in_common(client: Client, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    stores = [BlockStore(folder) for folder in folders]
    ones = [array.ones((SIDE, SIDE), chunks=CHUNK) for _ in stores]
    array.store(ones, stores, scheduler=client)
    assert [store.total() for store in stores] == [SIDE * SIDE] * 2


@pytest.mark.parametrize("inline", [False, True])
def test_what_is_read_under_a_lock_is_read_by_one_at_a_time(client: Client, tmp_path: Path, inline: bool) -> None:
    store = BlockStore(tmp_path)
    array.store(array.ones((SIDE, SIDE), chunks=BLOCK), store, scheduler=client)
    values = array.from_array(store, chunks=CHUNK, lock=True, inline_array=inline)
    assert (values + 1).sum().compute(scheduler=client) == 2 * SIDE * SIDE


@pytest.mark.parametrize("lock", [True, False], ids=["fused", "alone"])
def test_storing_without_an_effect_is_refused(client: Client, tmp_path: Path, lock: bool) -> None:
    ones = array.ones((4, 4), chunks=2)
    mapped = numpy.memmap(tmp_path / "mapped", shape=(4, 4), mode="w+")
    sources = [ones] if lock else [ones, ones + 1]  # two sources of one call are not fused
    for target in (numpy.zeros((4, 4)), mapped):
        with pytest.raises(TypeError, match=f"store into a {type(target).__name__} of this process"):
            array.store(sources, [target] * len(sources), lock=lock, scheduler=client)


def test_an_array_is_a_source_of_what_is_stored(client: Client, tmp_path: Path) -> None:
    store = BlockStore(tmp_path)
    source = array.from_array(numpy.ones((SIDE, SIDE)), chunks=BLOCK)
    array.store(source, store, scheduler=client)
    assert store.total() == SIDE * SIDE
    kept = array.store(source, numpy.zeros((SIDE, SIDE)), return_stored=True, compute=False)
    assert kept.sum().compute(scheduler=client) == SIDE * SIDE


def test_a_lock_of_threads_is_refused(client: Client, tmp_path: Path) -> None:
    ones = array.ones((SIDE, SIDE), chunks=CHUNK)
    with pytest.raises(TypeError, match=r"Use client.lock\(name\)"):
        array.store(ones, BlockStore(tmp_path), lock=threading.Lock(), scheduler=client)


def test_a_lock_inside_an_object_of_the_user(client: Client, tmp_path: Path) -> None:
    class Counter:
        def __init__(self, path: Path) -> None:
            self.path = path
            self.lock = dask_utils.SerializableLock()

        def increment(self, _: int) -> None:
            with self.lock:
                count = int(self.path.read_text())
                time.sleep(0.0005)
                self.path.write_text(str(count + 1))

    path = tmp_path / "count"
    path.write_text("0")
    counter = Counter(path)
    dask.compute(*[dask.delayed(counter.increment)(number) for number in range(50)], scheduler=client)
    client.map(counter.increment, range(50))
    assert path.read_text() == "100"


# ---- callbacks -------------------------------------------------------------------------------------------------------


def test_callbacks_with_large_results(client: Client) -> None:
    sizes: list[int] = []

    def note(key: Any, value: Any, *_: Any) -> None:
        if isinstance(value, numpy.ndarray) and value.ndim == 2:
            sizes.append(value.nbytes)

    ones = array.ones((1000, 1000), chunks=250)
    with dask.callbacks.Callback(posttask=note):
        assert (ones + 1).sum().compute(scheduler=client, optimize_graph=False) == 2_000_000
    assert len(sizes) >= 32


def test_a_progress_bar(client: Client) -> None:
    from dask.diagnostics import ProgressBar

    output = io.StringIO()
    with ProgressBar(out=output, dt=0.01):
        total = dask.delayed(sum)([dask.delayed(functions.square)(number) for number in range(200)])
        assert total.compute(scheduler=client) == sum(number**2 for number in range(200))
    assert output.getvalue().rstrip().endswith("s") and "100% Completed" in output.getvalue()


# ---- generators ------------------------------------------------------------------------------------------------------


def count_to(limit: int) -> Iterator[int]:
    yield from range(limit)


def fail_at(limit: int) -> Iterator[int]:
    yield from range(limit)
    raise ValueError("no more")


def test_a_generator_is_an_iterator_for_who_needs_it(client: Client) -> None:
    numbers = dask.delayed(count_to)(10)
    total, largest = dask.delayed(sum)(numbers), dask.delayed(max)(numbers)
    assert dask.compute(total, largest, scheduler=client) == (45, 9)
    result = numbers.compute(scheduler=client)
    assert next(result) == 0 and list(result) == list(range(1, 10))
    with pytest.raises(ValueError, match="no more"):
        dask.delayed(sum)(dask.delayed(fail_at)(3)).compute(scheduler=client)


def test_generators_in_bags(client: Client) -> None:
    bag = pytest.importorskip("dask.bag")
    numbers = bag.from_sequence(range(100), npartitions=5).map_partitions(lambda part: (item + 1 for item in part))
    assert numbers.sum().compute(scheduler=client) == 5050
    assert numbers.compute(scheduler=client) == list(range(1, 101))


def test_elsewhere_a_generator_is_an_error(client: Client) -> None:
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        client.submit(count_to, 3).result(50)
