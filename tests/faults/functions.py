"""What the tasks of the workload run."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

import numpy

from scaler import ActorHandle, Client
from scaler.client.lock import Lock
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


def total_of_chain(size: int, length: int) -> int:
    """Nested tasks whose arguments are futures of one another's large results."""
    with Client() as client:
        last = client.submit(make, size, 0)
        for _ in range(length):
            last = client.submit(add, last, 1)
        return client.submit(total, last).result()


def hold_alone(lock: Lock, path: str) -> bool:
    """Return whether the file ``path`` was free for whoever held ``lock``."""
    with lock, open(path, "a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        spin(1, 0.01)
        return True


class Totals:
    """An actor that knows the calls that it has run."""

    def __init__(self) -> None:
        self.calls: set[int] = set()

    def total(self, array: numpy.ndarray, call: int | None = None) -> int | str:
        """Return the sum of the elements. ``call``: no other has this number."""
        if call in self.calls:
            return "this call has run before"
        if call is not None:
            self.calls.add(call)
        return total(array)


def total_by(handle: ActorHandle[Totals], size: int, value: int) -> int | str:
    with Client() as client:
        return handle.total(client.submit(make, size, value)).result()


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
