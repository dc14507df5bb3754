"""The analysis of a whole graph as sparse linear algebra: the same answers as ``scaler.graph.analyse``.

A matrix has an entry (c, d) where call c needs call d. Levels are found by taking away, again and again, the calls that
need nothing any more, so the number of steps is the length of the longest way: this pays for wide graphs only. One that
turns out to be deep is left to the plain path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from graphblas import Matrix, Vector, binary, monoid, semiring
from graphblas.ss import Context

from scaler.graph import Analysis, CallGraph
from scaler.graph import analyse as analyse_plainly

CALLS_PER_STEP = 2_000
"""A step costs as much as the plain path needs for about so many calls."""


def analyse(graph: CallGraph, groups: Sequence[int]) -> Analysis:
    """Like ``scaler.graph.analyse``. Raises CycleError."""
    with Context(nthreads=1):  # more threads wait for each other longer than they compute
        answer = _analyse(graph, groups)
    return analyse_plainly(graph, groups) if answer is None else answer


def _analyse(graph: CallGraph, groups: Sequence[int]) -> Analysis | None:
    """None: the graph is deep, or has a cycle, which the plain path names."""
    steps = max(16, len(graph) // CALLS_PER_STEP)
    rows, columns = _edges(graph)
    needs = _matrix(rows, columns, len(graph))
    kept = _ancestors(needs, graph.targets, steps)
    if kept is None:
        return None
    levels = _ways(needs, kept, steps)
    heights = None if levels is None else _ways(needs.T.new(), kept, steps)
    if levels is None or heights is None:
        return None
    order = _arranged(levels, heights, numpy.fromiter(groups, numpy.int64, len(graph)))
    return Analysis(order.tolist(), levels.tolist(), heights.tolist())


def _edges(graph: CallGraph) -> tuple[Any, Any]:
    """Return which call needs which, each pair once or several times."""
    slots = numpy.frombuffer(graph.slots, numpy.int64) if len(graph.slots) else numpy.empty(0, numpy.int64)
    ends = numpy.frombuffer(graph.ends, numpy.int64)
    counts = ends - numpy.concatenate(([0], ends[:-1]))
    rows = numpy.repeat(numpy.arange(len(graph)), counts)
    calls = slots >= 0
    return rows[calls], slots[calls]


def _matrix(rows: Any, columns: Any, count: int) -> Any:
    return Matrix.from_coo(rows, columns, True, nrows=count, ncols=count, dtype=bool)


def _ancestors(needs: Any, targets: Sequence[int], steps: int) -> Any:
    """The calls that targets need; None: they are further away than so many steps."""
    calls = sorted({target for target in targets if target >= 0})
    found = Vector.from_coo(calls, True, size=needs.nrows, dtype=bool)
    frontier = found
    while frontier.nvals:
        if not steps:
            return None
        steps -= 1
        reached = Vector(bool, needs.nrows)
        reached(~found.S, replace=True) << semiring.any_pair(frontier @ needs)
        found(binary.lor) << reached
        frontier = reached
    return found


def _ways(needs: Any, kept: Any, steps: int) -> Any:
    """Return, for each kept call, the number of calls on the longest path to it; -1: not kept. None: there is a cycle,
    or a path is longer than ``steps``."""
    inner = Matrix(bool, needs.nrows, needs.ncols)
    inner << needs
    if kept.nvals < needs.nrows:
        chosen = kept.diag()
        inner << semiring.any_pair(semiring.any_pair(chosen @ needs).new() @ chosen)
    return _ways_of(inner, kept, steps)


def _ways_of(inner: Any, kept: Any, steps: int) -> Any:
    lengths = numpy.full(inner.nrows, -1, numpy.int64)
    waiting = inner.reduce_rowwise(monoid.plus[int]).new().to_dense(fill_value=0)
    users = inner.T.new()
    ready, _ = kept.to_coo(values=False)
    ready = ready[waiting[ready] == 0]
    done = 0
    for length in range(steps):
        lengths[ready] = length
        done += len(ready)
        if not len(ready):
            break
        met = Vector(int, inner.nrows)
        met << semiring.plus_pair[int](Vector.from_coo(ready, True, size=inner.nrows) @ users)
        places, counts = met.to_coo()
        waiting[places] -= counts
        ready = places[waiting[places] == 0]
    return lengths if done == kept.nvals else None


def _arranged(levels: Any, heights: Any, groups: Any) -> Any:
    kept = numpy.flatnonzero(levels >= 0)
    return kept[numpy.lexsort((groups[kept], -heights[kept], levels[kept]))]
