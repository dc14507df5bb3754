"""Functions that parfun and pargraph split or delay. Apart from their tests: the import of both takes seconds, with
scikit-learn, and every process that runs tests collects all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import parfun
import pargraph


def by_chunks(function: Callable[..., Any]) -> Any:
    split = parfun.per_argument(values=parfun.py_list.by_chunk)
    return parfun.parallel(split=split, combine_with=parfun.py_list.concat)(function)


@by_chunks
def powers(values: list[int], exponent: int) -> list[int]:
    return [value**exponent for value in values]


@by_chunks
def sums_of_powers(values: list[int], exponent: int) -> list[int]:
    return [sum(powers(list(range(value)), exponent)) for value in values]


@by_chunks
def failures(values: list[int]) -> list[int]:
    raise LookupError(values[0])


@pargraph.delayed
def between(values: Any, low: float, high: float) -> Any:
    return values[(values >= low) & (values < high)]


@pargraph.delayed
def ordered(values: Any) -> Any:
    return numpy.sort(values)


@pargraph.delayed
def joined(*parts: Any) -> Any:
    return numpy.concatenate(parts)


@pargraph.graph
def sort_by_parts(values: Any, count: int) -> Any:
    return joined(*(ordered(between(values, part / count, (part + 1) / count)) for part in range(count)))
