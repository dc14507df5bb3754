"""The processors that each worker is bound to, if the operator wants that.

A bound worker finds its data in the caches and, on a host with several NUMA nodes, in the memory near its processors.
A worker that is not bound may run wherever a processor is free.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

UNBOUND = "none"
PINNING_KINDS = (UNBOUND, "cpu", "numa")
"""``cpu``: each worker has processors of its own. ``numa``: each has all processors of one NUMA node."""

SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True, order=True)
class Processor:
    """Processors of one ``core`` share its caches. ``core``: the lowest number among them."""

    node: int
    core: int
    number: int


def assign_processors(kind: str, worker_count: int, processors: Sequence[Processor]) -> list[tuple[int, ...]]:
    """The numbers of each worker's processors, in the order of the workers; empty: it is not bound. The workers get
    equal parts. With more workers than processors, several share one."""
    if kind == UNBOUND or not processors:
        return [()] * worker_count
    ordered = sorted(processors)
    bounds = [worker * len(ordered) // worker_count for worker in range(worker_count + 1)]
    parts = [ordered[start : max(start + 1, stop)] for start, stop in zip(bounds, bounds[1:], strict=False)]
    if kind == "numa":
        parts = [[each for each in ordered if each.node == part[0].node] for part in parts]
    return [tuple(each.number for each in part) for part in parts]


def read_processors(allowed: Sequence[int], system: Path = SYSTEM) -> list[Processor]:
    """Find where the processors with these numbers are. A host that does not tell has one node, and a core for each."""
    node_of = {
        number: int(folder.name.removeprefix("node"))
        for folder in (system / "node").glob("node[0-9]*")
        for number in _numbers(folder / "cpulist")
    }
    return [
        Processor(
            node_of.get(number, 0),
            min(_numbers(system / f"cpu/cpu{number}/topology/thread_siblings_list"), default=number),
            number,
        )
        for number in allowed
    ]


def bind_process(pid: int, processors: tuple[int, ...]) -> None:
    """Let a process that has one thread run on these processors alone; without any, wherever it may."""
    if not processors:
        return
    try:
        os.sched_setaffinity(pid, processors)
    except OSError as error:  # it has ended, or the container has lost these processors
        logging.warning(f"Cannot bind worker process {pid} to its processors: {error.strerror}.")


def _numbers(path: Path) -> list[int]:
    """The numbers of a list such as ``0-3,8``; empty if there is none."""
    try:
        text = path.read_text()
        bounds = [part.split("-") for part in text.split(",") if part.strip()]
        return [number for each in bounds for number in range(int(each[0]), int(each[-1]) + 1)]
    except (OSError, ValueError):
        return []
