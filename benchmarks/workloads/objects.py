"""Large arguments and results. Each speed is set against what the same machine needs at least for the work: making or
summing the array, and one copy into warm memory."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import psutil

ARRAY_BYTES = 100_000_000
FRAME_ROWS = 5_000_000
BROADCAST_BYTES = 1_000_000_000
SMALL_BYTES = 100_000
DICT_ENTRIES = 1_000_000
AROUND_LIMIT_BYTES = {"31k": 31_000, "33k": 33_500, "100k": 100_000, "1m": 1_000_000}
AROUND_LIMIT_TOTAL_BYTES = 400_000_000
GIVEN_BACK_SECONDS = 12.0
"""Object stores keep free memory warm for 10 s."""

_REPEATS = 7
_MIB = 1024 * 1024


def total(array: Any) -> float:
    return float(array.sum())


def first(array: Any) -> float:
    return float(array[0])


def make(count: int) -> Any:
    import numpy

    return numpy.ones(count)


def array_argument(engine: Any, size: int) -> dict[str, float]:
    """An array there and its sum back; ``least``: one copy into warm memory and the sum."""
    import numpy

    array = numpy.ones(size // 8)
    warm = numpy.empty_like(array)

    def copy_and_sum() -> None:
        numpy.copyto(warm, array)
        total(warm)

    def there_and_back() -> None:
        array[0] += 1  # not the same array again: that would not travel
        assert engine.submit(total, array).result() > 0

    return _against(copy_and_sum, there_and_back, size)


def array_result(engine: Any, size: int) -> dict[str, float]:
    """An array made by a task; ``least``: making it and one copy into warm memory."""
    import numpy

    warm = numpy.ones(size // 8)
    return _against(
        lambda: numpy.copyto(warm, make(size // 8)), lambda: len(engine.submit(make, size // 8).result()), size
    )


def group_means(frame: Any) -> Any:
    return frame.groupby("shop").mean()


def data_frame(engine: Any, rows: int) -> dict[str, float]:
    """A DataFrame of ``rows`` rows there and means of its groups back; ``least``: one copy and the means."""
    import numpy
    import pandas

    draw = numpy.random.default_rng(7)
    frame = pandas.DataFrame({"shop": draw.integers(0, 50, rows), "amount": draw.gamma(2.0, 15.0, rows)})

    def there_and_back() -> None:
        frame.loc[0, "amount"] += 1  # not the same one again: that would not travel
        assert len(engine.submit(group_means, frame).result()) == 50

    return _against(lambda: group_means(frame.copy()), there_and_back, 16 * rows)


def send_object(engine: Any, count: int) -> dict[str, float]:
    """100 MB sent once, then ``count`` tasks on it."""
    import numpy

    seconds = []
    for _ in range(3):
        array = numpy.random.default_rng().random(ARRAY_BYTES // 8)
        started = time.perf_counter()
        reference = engine.send(array)
        futures = [engine.submit(first, reference) for _ in range(count)]
        assert engine.gather(futures) == [array[0]] * count
        seconds.append(time.perf_counter() - started)
        del reference, futures
    return {"seconds": statistics.median(seconds)}


def shared_dict(engine: Any, count: int) -> dict[str, float]:
    """A dict of a million entries sent once, then ``count`` tasks on it."""
    sent = {f"key {number}": number for number in range(DICT_ENTRIES)}
    started = time.perf_counter()
    reference = engine.send(sent)
    futures = [engine.submit(len, reference) for _ in range(count)]
    assert engine.gather(futures) == [DICT_ENTRIES] * count
    return {"seconds": time.perf_counter() - started}


def around_inline_limit(engine: Any, count: int) -> dict[str, float]:
    """Maps over ``count`` arguments, and results, of sizes below and above that from which values go to the store."""
    figures = {}
    for name, size in AROUND_LIMIT_BYTES.items():
        number = min(count, AROUND_LIMIT_TOTAL_BYTES // size)
        data = [bytes([index % 256]) * size for index in range(number)]
        for _ in range(2):  # the first fills the memory
            started = time.perf_counter()
            assert engine.map(len, data) == [size] * number
            figures[f"{name}_arguments_per_second"] = number / (time.perf_counter() - started)
            started = time.perf_counter()
            assert len(engine.map(bytes, [size] * number)) == number
            figures[f"{name}_results_per_second"] = number / (time.perf_counter() - started)
    return figures


def gather_results(engine: Any, count: int) -> dict[str, float]:
    """The results of ``count`` futures that have ended, of sizes below and above that from which values stay where they
    are: sent with the results, and fetched."""
    figures = {}
    for name in ("31k", "33k", "100k"):
        futures = [engine.submit(bytes, AROUND_LIMIT_BYTES[name]) for _ in range(count)]
        wait(futures)
        started = time.perf_counter()
        assert len(engine.gather_at_once(futures)) == count
        figures[f"{name}_per_second"] = count / (time.perf_counter() - started)
        del futures
    return figures


def broadcast_memory(engine: Any, count: int) -> dict[str, float]:
    """1 GB as an argument of ``count`` tasks: what all processes together grew by, at most, and took."""
    import numpy

    array = numpy.ones(BROADCAST_BYTES // 8)
    before = _resident_mib()
    with _Peak() as peak:
        started = time.perf_counter()
        reference = engine.send(array)
        engine.gather([engine.submit(total, reference) for _ in range(count)])
        seconds = time.perf_counter() - started
    return {"growth_gb": (peak.mib - before) * _MIB / 1e9, "seconds": seconds}


def many_objects(engine: Any, count: int) -> dict[str, float]:
    """``count`` objects of 100 KB, each made by a task and read by another. ``left_mib``: what all processes together
    have grown by when free memory was given back, since a tenth as many were made and read."""
    _make_and_read(engine, count // 10)
    time.sleep(GIVEN_BACK_SECONDS)
    before = _resident_mib()
    started = time.perf_counter()
    _make_and_read(engine, count)
    seconds = time.perf_counter() - started
    time.sleep(GIVEN_BACK_SECONDS)
    return {"objects_per_second": count / seconds, "left_mib": _resident_mib() - before}


def _make_and_read(engine: Any, count: int) -> None:
    graph: dict[str, Any] = {"size": SMALL_BYTES // 8}
    for index in range(count):
        graph[f"made-{index}"] = (make, "size")
        graph[f"read-{index}"] = (first, f"made-{index}")
    graph["all"] = (_count_all, *(f"read-{index}" for index in range(count)))
    assert engine.get(graph, "all") == count


def _count_all(*values: float) -> int:
    return len(values)


def dask_array(engine: Any, side: int) -> dict[str, float]:
    """Transposed sums and products of ``side`` x ``side`` numbers: many small chunks, and a few large ones."""
    figures = {}
    for name, chunk in (("small", side // 40), ("large", side // 4)):
        array = _dask_work(side, chunk)
        started = time.perf_counter()
        engine.compute(array)
        figures[f"{name}_chunks_s"] = time.perf_counter() - started
    return figures


def _dask_work(side: int, chunk: int) -> Any:
    import dask.array

    array = dask.array.random.default_rng(1).random((side, side), chunks=chunk)  # ones would travel as a single number
    return ((array + array.T) * 2).sum(axis=0).mean()


def _against(least: Callable[[], Any], work: Callable[[], Any], size: int) -> dict[str, float]:
    """Measure in turns, so that both see the same machine."""
    least()
    work()
    times: tuple[list[float], list[float]] = [], []
    for _ in range(_REPEATS):
        for action, seconds in zip((least, work), times, strict=True):
            started = time.perf_counter()
            action()
            seconds.append(time.perf_counter() - started)
    best, took = map(statistics.median, times)
    return {"mb_per_second": size / took / 1e6, "times_least": took / best, "least_ms": best * 1e3}


class _Peak:
    """The largest memory of all processes while it is open."""

    def __enter__(self) -> _Peak:
        self.mib = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def _sample(self) -> None:
        while not self._over.wait(0.2):
            self.mib = max(self.mib, _resident_mib())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.mib = max(self.mib, _resident_mib())


def _resident_mib() -> float:
    """Return the memory of this process, its descendants and the host's object stores; a page that several share counts
    once."""
    own = psutil.Process()
    stores = [each for each in psutil.process_iter(["cmdline"]) if "scaler_protocol.objects" in str(each.info)]
    processes = {each.pid: each for each in (own, *own.children(recursive=True), *stores)}
    return sum(_proportional_bytes(pid) for pid in processes) / _MIB


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):  # it has just ended
        return 0
