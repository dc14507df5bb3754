"""The positions of a graph's nodes: in layers from left to right, each edge pointing right.

Layers by longest path, order inside a layer by the mean place of the neighbours (a few sweeps both ways), places as
near to the neighbours as order and distance allow. 10,000 nodes take well under a second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

_SWEEPS = 5
_Array = numpy.ndarray[Any, Any]


class GraphLayout(NamedTuple):
    """One place per node, in units of the distance between two neighbours in a layer."""

    x: _Array
    y: _Array
    width: float
    height: float


def layered(nodes: int, sources: _Array, targets: _Array) -> GraphLayout:
    """``sources[i] -> targets[i]`` are edges. Nodes on a cycle, which no graph of tasks has, stand at the left."""
    layers = layers_of(nodes, sources, targets)
    columns = _groups(layers, int(layers.max(initial=-1)) + 1)
    y = _places(layers, columns, sources, targets)
    if not nodes:
        return GraphLayout(y, y, 0.0, 0.0)
    y -= y.min()
    height = float(y.max()) + 1.0
    distance = max(4.6, 1.4 * height / len(columns))
    return GraphLayout(layers * distance, y, (len(columns) - 1) * distance + 1.0, height)


def layers_of(nodes: int, sources: _Array, targets: _Array) -> _Array:
    """The length of the longest path that ends at each node."""
    layers = numpy.zeros(nodes, numpy.int64)
    missing = numpy.bincount(targets, minlength=nodes)
    order = numpy.argsort(sources, kind="stable")
    first = numpy.searchsorted(sources[order], numpy.arange(nodes + 1))
    front = numpy.flatnonzero(missing == 0)
    while front.size:
        edges = order[_ranges(first[front], first[front + 1])]
        numpy.maximum.at(layers, targets[edges], layers[sources[edges]] + 1)
        touched, left = numpy.unique(targets[edges], return_counts=True)
        missing[touched] -= left
        front = touched[missing[touched] == 0]
    return numpy.where(missing > 0, 0, layers)


def _ranges(starts: _Array, ends: _Array) -> _Array:
    """All whole numbers of all ranges, one after another."""
    counts = ends - starts
    offsets = numpy.repeat(starts - numpy.concatenate(([0], numpy.cumsum(counts)[:-1])), counts)
    return offsets + numpy.arange(int(counts.sum()))


def _groups(numbers: _Array, count: int) -> list[_Array]:
    """Return the position of each number below ``count``."""
    order = numpy.argsort(numbers, kind="stable")
    return numpy.split(order, numpy.searchsorted(numbers[order], numpy.arange(1, count))) if count else []


class _Sweep:
    """One way through the layers: each is ordered by the neighbours on one side. The cost grows with the edges."""

    def __init__(self, layers: _Array, columns: list[_Array], near: _Array, far: _Array) -> None:
        place = numpy.zeros(len(layers), numpy.int64)
        for column in columns:
            place[column] = numpy.arange(len(column))
        edges = _groups(layers[near], len(columns))
        self._columns = [(column, place[near[each]], far[each]) for column, each in zip(columns, edges, strict=True)]

    def move(self, y: _Array, backwards: bool) -> None:
        for column, near, far in self._columns[::-1] if backwards else self._columns:
            if len(column) == 1:
                y[column] = y[far].mean() if far.size else y[column]
                continue
            wanted = _means(near, y[far], y[column])
            order = numpy.argsort(wanted, kind="stable")
            y[column[order]] = spread(wanted[order])


def _places(layers: _Array, columns: list[_Array], sources: _Array, targets: _Array) -> _Array:
    """Heights, after sweeps to the right (by what a node needs) and to the left (by who needs it)."""
    y = numpy.zeros(len(layers))
    tallest = max((len(column) for column in columns), default=0)
    for column in columns:
        y[column] = (numpy.arange(len(column)) + 0.5) * tallest / max(1, len(column))
    to_the_right = _Sweep(layers, columns, targets, sources)
    to_the_left = _Sweep(layers, columns, sources, targets)
    for sweep in range(_SWEEPS):
        is_back = sweep % 2 == 1
        (to_the_left if is_back else to_the_right).move(y, is_back)
    return y


def _means(near: _Array, values: _Array, otherwise: _Array) -> _Array:
    """Return the means by place in a layer."""
    counts = numpy.bincount(near, minlength=len(otherwise))
    sums = numpy.bincount(near, values, len(otherwise))
    return numpy.where(counts > 0, sums / numpy.maximum(counts, 1), otherwise)


def spread(wanted: _Array) -> _Array:
    """Places nearest to the ascending ``wanted`` (least squares) with a distance of one at least."""
    blocks: list[tuple[float, int]] = []  # mean and size: pool adjacent violators
    for value in (wanted - numpy.arange(len(wanted))).tolist():
        size = 1
        while blocks and blocks[-1][0] >= value:
            mean, count = blocks.pop()
            value = (mean * count + value * size) / (count + size)
            size += count
        blocks.append((value, size))
    means = numpy.repeat([mean for mean, _ in blocks], [size for _, size in blocks])
    return means + numpy.arange(len(wanted))
