"""Ten computations of Dask, in seconds: by the engine, and by Dask's own threads in the same process."""

from __future__ import annotations

import operator
import statistics
import time
from collections.abc import Callable
from typing import Any

_TURNS = 3
_WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "runs", "away", "from", "it")


def spin(count: int) -> int:
    """Work that holds the GIL."""
    total = 0
    for number in range(count):
        total += number * number % 7
    return total


def word_at(index: int) -> str:
    return _WORDS[index * 7919 % len(_WORDS)]


def is_long(word: str) -> bool:
    return len(word) > 3


def slow_ratio(row: Any) -> float:
    return float(spin(20) + row["value"]) / (1 + row["key"])


def dask_table(engine: Any, scale: int) -> dict[str, float]:
    """``scale``: per cent of the full sizes. Medians of turns, each of which computes something else: an engine that
    still has the values of equal keys would not compute them."""
    figures: dict[str, float] = {}
    for name, make in _COMPUTATIONS.items():
        engines: list[float] = []
        threads: list[float] = []
        for turn in range(_TURNS + 1):
            engines.append(_seconds(engine.compute, make(scale / 100, 2 * turn)))
            threads.append(_seconds(_compute_in_threads, make(scale / 100, 2 * turn + 1)))
        # Without the first turn: imports, and memory for the first time.
        figures[f"{name}_s"] = statistics.median(engines[1:])
        figures[f"{name}_threads_s"] = statistics.median(threads[1:])
    return figures


def _compute_in_threads(collection: Any) -> Any:
    """Compute without the shuffle of dask.distributed, which its client makes the default and its workers do."""
    import dask

    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        return collection.compute(scheduler="threads")


def _seconds(compute: Callable[[Any], Any], collection: Any) -> float:
    started = time.perf_counter()
    compute(collection)
    return time.perf_counter() - started


# ---- arrays ----------------------------------------------------------------------------------------------------------


def _random(side: int, chunk: int, number: int) -> Any:
    import dask.array

    return dask.array.random.default_rng(number).random((side, side), chunks=chunk)


def _sum_of_small_chunks(scale: float, number: int) -> Any:
    side = max(200, int(4000 * scale**0.5))
    return (_random(side, side // 40, number) + 1).sum()


def _sum_of_large_chunks(scale: float, number: int) -> Any:
    side = max(400, int(8000 * scale**0.5))
    return (_random(side, side // 4, number) + 1).sum()


def _transposed(scale: float, number: int) -> Any:
    side = max(400, int(6000 * scale**0.5))
    array = _random(side, side // 10, number)
    return (array + array.T).mean(axis=0).max()


def _product(scale: float, number: int) -> Any:
    side = max(400, int(3000 * scale**0.5))
    array = _random(side, side // 4, number)
    return (array @ array).sum()


# ---- bags ------------------------------------------------------------------------------------------------------------


def _frequencies(scale: float, number: int) -> Any:
    import dask.bag

    count = max(1000, int(1_000_000 * scale)) + number
    return dask.bag.range(count, npartitions=20).map(word_at).filter(is_long).frequencies()


def _fold(scale: float, number: int) -> Any:
    import dask.bag

    count = max(200, int(20_000 * scale)) + number
    return dask.bag.range(count, npartitions=40).map(_spin_a_little).fold(operator.add)


def _spin_a_little(number: int) -> int:
    return spin(200) + number


# ---- data frames -----------------------------------------------------------------------------------------------------


def _frame(scale: float, number: int) -> Any:
    import dask.dataframe
    import numpy
    import pandas

    rows = numpy.arange(max(1000, int(2_000_000 * scale)))
    return dask.dataframe.from_pandas(pandas.DataFrame({"key": rows % 100, "value": rows + number}), npartitions=20)


def _groups(scale: float, number: int) -> Any:
    return _frame(scale, number).groupby("key").value.mean()


def _rows(scale: float, number: int) -> Any:
    return _frame(scale / 20, number).apply(slow_ratio, axis=1, meta=("ratio", float)).sum()


# ---- delayed calls ---------------------------------------------------------------------------------------------------


def _tree(scale: float, number: int) -> Any:
    import dask

    add = dask.delayed(operator.add, pure=False)
    level = [add(each, number) for each in range(max(100, int(10_000 * scale)))]
    while len(level) > 1:
        level = [add(*level[place : place + 2]) if place + 1 < len(level) else level[place]
                 for place in range(0, len(level), 2)]  # fmt: skip
    return level[0]


def _calls(scale: float, number: int) -> Any:
    import dask

    count = max(10, int(200 * scale))
    return dask.delayed(sum)([dask.delayed(spin, pure=False)(100_000 + number) for _ in range(count)])


_COMPUTATIONS = {
    "small_chunks": _sum_of_small_chunks,
    "large_chunks": _sum_of_large_chunks,
    "transposed": _transposed,
    "product": _product,
    "frequencies": _frequencies,
    "fold": _fold,
    "groups": _groups,
    "rows": _rows,
    "tree": _tree,
    "calls": _calls,
}
