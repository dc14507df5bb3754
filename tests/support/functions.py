"""Functions that tests run as tasks. What they do is seen through files, so tests need not guess at times."""

from __future__ import annotations

import collections
import itertools
import os
import time
import warnings
from pathlib import Path
from typing import Any

GATE_LIMIT_SECONDS = 120.0


def identity(value: Any) -> Any:
    return value


def square(value: int) -> int:
    return value * value


def increment(value: int) -> int:
    return value + 1


def add(left: Any, right: Any) -> Any:
    return left + right


def total(*values: int) -> int:
    return sum(values)


def fail(value: Any) -> Any:
    raise ValueError(f"no {value}")


def raise_value_error(text: str) -> None:
    raise ValueError(text)


def process_id(_: Any = None) -> int:
    return os.getpid()


def parent_process_id(_: Any = None) -> int:
    return os.getppid()


def note(path: str | Path, text: str = "x") -> None:
    """Append one line; lines of several processes never mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def notes(path: str | Path) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def note_and_return(path: str, value: Any) -> Any:
    note(path, str(value))
    return value


def wait_at_gate(started: str, gate: str, value: Any = None) -> Any:
    """Say in ``started`` that the task runs (its process id), then wait for the file ``gate`` to appear."""
    note(started, str(os.getpid()))
    deadline = time.monotonic() + GATE_LIMIT_SECONDS
    while not os.path.exists(gate) and time.monotonic() < deadline:
        time.sleep(0.002)
    return value


def loop_in_c(started: str, steps: int = 20_000_000_000) -> None:
    """One long call into C, about ten seconds or more: no signal handler of Python gets a turn until it ends."""
    note(started, str(os.getpid()))
    collections.deque(itertools.repeat(None, steps), maxlen=0)


def swallow_interrupts(started: str, seconds: float) -> None:
    """Refuse to be interrupted by exceptions."""
    note(started, str(os.getpid()))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            time.sleep(0.05)
        except BaseException:
            pass


def sleep_and_return(seconds: float, value: Any = None) -> Any:
    time.sleep(seconds)
    return value


def spend_processor_time(seconds: float) -> None:
    """However long that takes on a busy machine."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def spin_and_square(value: int, seconds: float = 0.0002) -> int:
    """Keep a core busy for a moment."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return value * value


def exit_process(path: str, code: int = 3) -> None:
    note(path, str(os.getpid()))
    os._exit(code)


def exit_process_at_first(path: str, value: Any) -> Any:
    """End the process the first time it is called with this path."""
    first = not notes(path)
    note(path, str(os.getpid()))
    if first:
        os._exit(1)
    return value


def fail_at_first(path: str, failures: int) -> int:
    """Raise ``failures`` times, then return how often it was called."""
    note(path)
    calls = len(notes(path))
    if calls <= failures:
        raise RuntimeError(f"failure {calls}")
    return calls


def warn_of(text: str, category: type[Warning] = UserWarning) -> str:
    warnings.warn(text, category, stacklevel=1)
    return text


class Sleeper:
    """An actor that is busy for as long as its caller says."""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
