"""Graphs of no-ops: what each node costs. A graph is a dict of ``name: (function, *names)`` and ``name: value``."""

from __future__ import annotations

import operator
import random
import time
from typing import Any

from benchmarks.peers import Engine

Graph = dict[str, Any]


def increment(value: int) -> int:
    return value + 1


def total(*values: int) -> int:
    return sum(values)


def tree(leaves: int) -> tuple[Graph, str, int]:
    """Pairwise sums of ``leaves`` computed leaves, down to one; with the key and value of the result."""
    graph: Graph = {}
    level = []
    for index in range(leaves):
        graph[f"value-{index}"] = index
        graph[f"leaf-{index}"] = (increment, f"value-{index}")
        level.append(f"leaf-{index}")
    depth = 0
    while len(level) > 1:
        depth += 1
        names = []
        for index in range(0, len(level), 2):
            names.append(f"sum-{depth}-{index // 2}")
            graph[names[-1]] = (operator.add, level[index], level[index + 1])
        level = names
    return graph, level[0], leaves * (leaves + 1) // 2


def layers(count: int, width: int, dependencies: int) -> tuple[Graph, str]:
    """``count`` layers of ``width`` nodes, each on ``dependencies`` nodes of the layer before; then one sum."""
    choose = random.Random(1)
    graph: Graph = {f"value-{index}": index for index in range(width)}
    before = list(graph)
    for layer in range(count):
        names = [f"node-{layer}-{index}" for index in range(width)]
        for name in names:
            graph[name] = (total, *choose.sample(before, dependencies))
        before = names
    graph["total"] = (total, *before)
    return graph, "total"


def chain(length: int) -> tuple[Graph, str]:
    graph: Graph = {"node-0": 0}
    for index in range(1, length + 1):
        graph[f"node-{index}"] = (increment, f"node-{index - 1}")
    return graph, f"node-{length}"


def calls_in(graph: Graph) -> int:
    return sum(1 for node in graph.values() if isinstance(node, tuple))


def _nodes_per_second(engine: Engine, graph: Graph, key: str) -> tuple[float, Any]:
    started = time.perf_counter()
    result = engine.get(graph, key)
    return calls_in(graph) / (time.perf_counter() - started), result


def tree_reduction(engine: Engine, leaves: int) -> dict[str, float]:
    """``leaves`` is rounded up to a power of two."""
    graph, key, expected = tree(1 << (leaves - 1).bit_length())
    rate, result = _nodes_per_second(engine, graph, key)
    assert result == expected
    return {"nodes_per_second": rate}


def layered(engine: Engine, width: int) -> dict[str, float]:
    graph, key = layers(20, width, 3)
    return {"nodes_per_second": _nodes_per_second(engine, graph, key)[0]}


def long_chain(engine: Engine, length: int) -> dict[str, float]:
    graph, key = chain(length)
    rate, result = _nodes_per_second(engine, graph, key)
    assert result == length
    return {"nodes_per_second": rate}


def chain_of_futures(engine: Engine, length: int) -> dict[str, float]:
    """Each call has the future of the one before as its argument."""

    def run() -> float:
        started = time.perf_counter()
        future = engine.submit(increment, 0)
        for _ in range(length - 1):
            future = engine.submit(increment, future)
        assert future.result() == length
        return length / (time.perf_counter() - started)

    first = run()
    return {"nodes_per_second": run(), "first_nodes_per_second": first}


def layers_of_futures(engine: Engine, width: int) -> dict[str, float]:
    """Like ``layered``, submitted call by call."""
    choose = random.Random(1)

    def run() -> float:
        started = time.perf_counter()
        layer = [engine.submit(increment, index) for index in range(width)]
        for _ in range(19):
            layer = [engine.submit(total, *choose.sample(layer, 3)) for _ in range(width)]
        engine.gather(layer)
        return 20 * width / (time.perf_counter() - started)

    first = run()
    return {"nodes_per_second": run(), "first_nodes_per_second": first}
