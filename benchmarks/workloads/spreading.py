"""Data that many hosts need: one object for all of them, and parts from each for each."""

from __future__ import annotations

import os
import time
from typing import Any

BROADCAST_BYTES = 1_000_000_000
SHUFFLE_BYTES = 1_000_000_000
_PARTS = 8
_HOLD_SECONDS = 0.5
_PROBES = 400


def host_of(array: Any) -> str:
    """The host on which the task runs. It takes long enough that every host gets a task."""
    assert float(array[-1]) == 1.0
    time.sleep(_HOLD_SECONDS)
    return os.readlink("/proc/self/ns/net")


def probe(_: int) -> str:
    time.sleep(0.01)
    return os.readlink("/proc/self/ns/net")


def make_parts(seed: int, size: int) -> list[Any]:
    import numpy

    return [numpy.full(size // 8, float(seed * _PARTS + part)) for part in range(_PARTS)]


def part_of(parts: list[Any], index: int) -> Any:
    return parts[index]


def combine(*parts: Any) -> float:
    return float(sum(part[0] + part[-1] for part in parts))


def total(*values: float) -> float:
    return sum(values)


def broadcast(engine: Any, size: int) -> dict[str, float]:
    """An array of ``size`` bytes to one host, and another to all hosts. Without what the tasks themselves take."""
    hosts = len(set(engine.map(probe, range(_PROBES))))
    one = _spread(engine, size, 1)
    every = _spread(engine, size, hosts)
    return {"hosts": hosts, "one_host_seconds": one, "all_hosts_seconds": every, "all_to_one": every / one}


def _spread(engine: Any, size: int, hosts: int) -> float:
    import numpy

    array = numpy.ones(size // 8)
    started = time.perf_counter()
    reference = engine.send(array)
    found = engine.gather([engine.submit(host_of, reference) for _ in range(hosts)])
    seconds = time.perf_counter() - started - _HOLD_SECONDS
    assert len(set(found)) == hosts, f"{hosts} tasks ran on {len(set(found))} hosts"
    return seconds


def shuffle(engine: Any, size: int) -> dict[str, float]:
    """Eight tasks make eight parts each, and eight tasks take one part of each."""
    graph: dict[str, Any] = {"bytes": size // _PARTS**2, **{f"number-{number}": number for number in range(_PARTS)}}
    for seed in range(_PARTS):
        graph[f"source-{seed}"] = (make_parts, f"number-{seed}", "bytes")
        graph.update(
            {f"part-{seed}-{index}": (part_of, f"source-{seed}", f"number-{index}") for index in range(_PARTS)}
        )
    for index in range(_PARTS):
        graph[f"sum-{index}"] = (combine, *(f"part-{seed}-{index}" for seed in range(_PARTS)))
    graph["total"] = (total, *(f"sum-{index}" for index in range(_PARTS)))
    started = time.perf_counter()
    found = engine.get(graph, "total")
    seconds = time.perf_counter() - started
    assert found == 2 * sum(range(_PARTS**2)), found
    return {"seconds": seconds, "mb_per_second": size / 1e6 / seconds}
