"""Where the nodes of a graph stand: in layers from left to right, each edge pointing right.

Layers by longest path, order inside a layer by the mean place of the neighbours (a few sweeps both ways), places as
near to the neighbours as order and distance allow. 10,000 nodes take well under a second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

_SWEEPS = 5
_Array = numpy.ndarray[Any, Any]


class Layout(NamedTuple):
    """One place per node, in units of the distance between two neighbours in a layer."""

    x: _Array
    y: _Array
    width: float
    height: float


def layered(nodes: int, sources: _Array, targets: _Array) -> Layout:
    """``sources[i] -> targets[i]`` are edges. Nodes on a cycle, which no graph of tasks has, stand at the left."""
    layers = layers_of(nodes, sources, targets)
    columns = [numpy.flatnonzero(layers == layer) for layer in range(int(layers.max(initial=-1)) + 1)]
    y = _places(nodes, columns, sources, targets)
    if not nodes:
        return Layout(y, y, 0.0, 0.0)
    y -= y.min()
    height = float(y.max()) + 1.0
    distance = max(4.6, 1.4 * height / len(columns))
    return Layout(layers * distance, y, (len(columns) - 1) * distance + 1.0, height)


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
        left = numpy.bincount(targets[edges], minlength=nodes)
        missing -= left
        front = numpy.flatnonzero((left > 0) & (missing == 0))
    return numpy.where(missing > 0, 0, layers)


def _ranges(starts: _Array, ends: _Array) -> _Array:
    """All whole numbers of all ranges, one after another."""
    counts = ends - starts
    offsets = numpy.repeat(starts - numpy.concatenate(([0], numpy.cumsum(counts)[:-1])), counts)
    return offsets + numpy.arange(int(counts.sum()))


def _places(nodes: int, columns: list[_Array], sources: _Array, targets: _Array) -> _Array:
    """Heights, after sweeps to the right (by what a node needs) and to the left (by who needs it)."""
    y = numpy.zeros(nodes)
    tallest = max((len(column) for column in columns), default=0)
    for column in columns:
        y[column] = (numpy.arange(len(column)) + 0.5) * tallest / max(1, len(column))
    for sweep in range(_SWEEPS):
        near, far = (targets, sources) if sweep % 2 == 0 else (sources, targets)
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            wanted = _means(nodes, near, y[far], y)[column]
            order = numpy.argsort(wanted, kind="stable")
            y[column[order]] = spread(wanted[order])
    return y


def _means(nodes: int, near: _Array, values: _Array, otherwise: _Array) -> _Array:
    counts = numpy.bincount(near, minlength=nodes)
    sums = numpy.bincount(near, values, nodes)
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
