"""What the tasks of the workload run."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import numpy

from scaler import Client
from scaler.shell.client_io import _instances


def square(number: int) -> int:
    return number * number


def spin(number: int, seconds: float) -> int:
    """Compute for ``seconds``, then return ``number``."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return number


def spin_once(path: str, seconds: float) -> int:
    """As ``spin``, but leaves a line in the file ``path`` for each execution."""
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    return spin(1, seconds)


def executions(path: str) -> int:
    """How often ``spin_once`` has run with ``path``."""
    return len(Path(path).read_text(encoding="ascii").splitlines()) if os.path.exists(path) else 0


def count_nodes(depth: int, width: int) -> int:
    """The size of a tree of tasks, in which each task waits for its children."""
    if depth == 0:
        return 1
    with Client() as client:
        return 1 + sum(client.map(count_nodes, [depth - 1] * width, [width] * width))


def add(array: numpy.ndarray, number: int) -> numpy.ndarray:
    return array + number


def make(size: int, value: int) -> numpy.ndarray:
    return numpy.full(size, value, dtype=numpy.int64)


def total(*arrays: numpy.ndarray) -> int:
    return sum(int(array.sum()) for array in arrays)


def total_of_nested(size: int, count: int) -> int:
    """Large results and arguments of nested tasks."""
    with Client() as client:
        arrays = [client.submit(make, size, value) for value in range(count)]
        return sum(client.map(total, [array.result() for array in arrays]))


class Counter:
    """An actor that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls


def variable(name: str, number: int) -> tuple[str | None, int]:
    return os.environ.get(name), number


def sum_after_a_cut(numbers: list[int]) -> int:
    """Cuts the connections of the clients of this process to its agent, while tasks of one of them run."""
    with Client() as client:
        futures = [client.submit(spin, number, 0.05) for number in numbers]
        for client_io in list(_instances):
            stream = client_io._connection._stream  # type: ignore[attr-defined]
            if not stream.eof:
                stream.plain_socket.shutdown(socket.SHUT_RDWR)
        return sum(future.result() for future in futures)
