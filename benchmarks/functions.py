"""The task functions of the workloads. Kept small and importable by name, so that every peer pickles them the same."""

from __future__ import annotations

import os
import time


def noop(value: int) -> None:
    """Does nothing: what is measured is the engine."""


def add(value: int, *, step: int = 1) -> int:
    return value + step


def scale(value: int, *, factor: int = 2) -> int:
    return value * factor


def power(value: int, *, exponent: int = 2) -> int:
    return value**exponent


def label(value: int, *, prefix: str = "") -> str:
    return prefix + str(value)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def spin(seconds: float) -> None:
    """Keeps a processor busy."""
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        pass


def sleep_span(seconds: float) -> tuple[float, int]:
    """The start, on the clock that all processes of a host share, and the process."""
    start = time.monotonic()
    time.sleep(seconds)
    return start, os.getpid()
