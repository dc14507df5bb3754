"""What ends a task from outside, and how soon its slot is free again; what is said of a task beside its result."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import TaskMemoryError, TaskTimeoutError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Stopwatch
from tests.support.waiting import wait_until

GRACE_SECONDS = 2.0
"""What a cancelled task gets to end by itself."""


def loop_in_python(started: str) -> None:
    functions.note(started)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pass


def hoard(started: str) -> int:
    functions.note(started)
    data = bytearray(400_000_000)
    for offset in range(0, len(data), 4096):
        data[offset] = 1
    time.sleep(30)
    return len(data)


def seconds_until_free(client: Client, gate: Gate, run: Callable[..., None]) -> float:
    """From cancelling a running task to the result of the next one on the only worker."""
    gate.started.unlink(missing_ok=True)
    future = client.submit(run, str(gate.started))
    wait_until(lambda: functions.notes(gate.started) if gate.started.exists() else None)
    watch = Stopwatch()
    assert future.cancel()
    assert client.submit(functions.square, 3).result(timeout=60) == 9
    return watch.seconds


def test_cancelling_a_loop_in_python_frees_its_slot_at_once(single_client: Client, gate: Gate) -> None:
    assert any(seconds_until_free(single_client, gate, loop_in_python) < 0.2 for _ in range(20))


def test_cancelling_a_call_into_c_frees_its_slot_after_the_grace_time(single_client: Client, gate: Gate) -> None:
    seconds = seconds_until_free(single_client, gate, functions.loop_in_c)
    assert GRACE_SECONDS <= seconds < GRACE_SECONDS + 6


def test_a_task_over_its_time_is_ended(single_client: Client) -> None:
    watch = Stopwatch()
    future = single_client.submit_verbose(time.sleep, (30,), timeout_seconds=0.3)
    with pytest.raises(TaskTimeoutError, match="0.3 seconds"):
        future.result(timeout=60)
    assert 0.3 <= watch.seconds < 20
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9


def test_a_task_over_its_memory_is_ended(single_client: Client, gate: Gate) -> None:
    future = single_client.submit_verbose(hoard, (str(gate.started),), memory_bytes=200_000_000)
    with pytest.raises(TaskMemoryError, match="200000000"):
        future.result(timeout=60)
    assert len(functions.notes(gate.started)) == 1
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9


def test_profiling_sees_the_memory_of_the_task(single_client: Client) -> None:
    small = single_client.submit(functions.square, 3, profiling=True)
    large = single_client.submit(bytearray, 60_000_000, profiling=True)
    assert (small.result(), len(large.result())) == (9, 60_000_000)
    assert large.profiling_info().memory_peak > small.profiling_info().memory_peak + 50_000_000


def test_what_a_task_prints_reaches_its_client_before_its_result(single_combo: SchedulerClusterCombo) -> None:
    program = f"""
import sys
from scaler import Client

def speak(name):
    for index in range(100):
        print(name, index)
    print(name, "ends", file=sys.stderr)

with Client({single_combo.get_address()!r}, stream_output=True) as client:
    client.submit(speak, "task").result()
    print("result", flush=True)
with Client({single_combo.get_address()!r}) as client:
    client.submit(speak, "quiet").result()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines() == [*(f"task {index}" for index in range(100)), "result"]
    assert done.stderr.splitlines() == ["task ends"]
