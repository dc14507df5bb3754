"""Tasks that write to what belongs to their worker process: the memory and the descriptors it shares with its agent. It
costs that process, and nobody else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from scaler_protocol.messages import Status
from scaler_protocol.transport.framing import pack
from scaler_worker.worker_process import channel
from tests.support.commands import Command, start_cluster
from tests.unit.worker.fake_scheduler import FakeScheduler


@contextmanager
def agent(workers: int) -> Iterator[tuple[FakeScheduler, Command]]:
    with FakeScheduler() as scheduler, start_cluster(scheduler.address, "-n", workers, "-hi", 0.1) as command:
        scheduler.wait_for_agent()
        yield scheduler, command


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[FakeScheduler, Command]]:
    with agent(2) as started:
        yield started


def overwrite_board(value: int) -> None:
    import ctypes

    with open("/proc/self/maps") as file:
        line = next(each for each in file if "scaler-board" in each)
    start, end = (int(part, 16) for part in line.split()[0].split("-"))
    ctypes.memset(start, value, end - start)


def write_to_sockets(data: bytes) -> None:
    """What this process's own stream to its agent is among."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), data)
        except OSError:
            pass


def say(frames: list[bytes]) -> Callable[[], None]:
    data = pack(frames)
    return lambda: write_to_sockets(data)


def say_with_descriptor(frames: list[bytes], path: str, size: int) -> Callable[[], None]:
    data = pack(frames)

    def work() -> None:
        import socket

        opened = os.open(path, os.O_RDWR)
        for name in os.listdir("/proc/self/fd"):
            if os.path.islink(f"/proc/self/fd/{name}") and os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as stream:
                    try:
                        socket.send_fds(stream, [data], [opened])
                    except OSError:
                        pass

    return work


def loop_to_stderr() -> None:
    """Until it is killed, faster than anybody reads."""
    while True:
        os.write(2, b"x" * 65536)


NUMBER = channel.pack_number

FAULTS: dict[str, Callable[[], None]] = {
    "board zero": lambda: overwrite_board(0),
    "board ff": lambda: overwrite_board(0xFF),
    "board 17": lambda: overwrite_board(0x17),
    "stream garbage": lambda: write_to_sockets(b"\xff" * 4096),
    "stream zeros": lambda: write_to_sockets(bytes(4096)),
    "an unknown message": say([b"nonsense"]),
    "ready again": say([channel.READY]),
    "failed after it was ready": say([channel.FAILED, b"no such module"]),
    "warnings without fields": say([channel.WARNED]),
    "numbers of three bytes": say([channel.LARGE, b"abc", b"def"]),
    "a large result without its descriptor": say([channel.LARGE, NUMBER(0), NUMBER(9)]),
    "a large result that never ends": say_with_descriptor([channel.LARGE, NUMBER(0), NUMBER(9)], "/dev/zero", 9),
    "descriptors without end": say_with_descriptor([channel.WARNED, NUMBER(2**63), b"", b""], "/dev/null", 0),
}


def statuses_of_many(scheduler: FakeScheduler, first: int) -> Counter[int]:
    """How many of 200 harmless tasks end with each status."""
    scheduler.results.clear()
    scheduler.submit(os.getpid, [()] * 200, first=first)
    scheduler.wait_for_results(200)
    return Counter(row[0] for row in scheduler.results.values())


@pytest.mark.parametrize("fault", FAULTS)
def test_it_costs_the_process_that_does_it_and_nobody_else(fault: str, shared: tuple[FakeScheduler, Command]) -> None:
    scheduler, command = shared
    scheduler.results.clear()
    damage = FAULTS[fault]

    def hostile(number: int) -> int:
        damage()
        return number

    scheduler.submit(hostile, [(1,)], first=0)
    scheduler.submit(lambda number: number, [(number,) for number in range(200)], first=1000)
    scheduler.wait_for_results(201)
    assert {scheduler.results[task][0] for task in range(1000, 1200)} <= {Status.SUCCESS, Status.PROCESSOR_DIED}
    assert scheduler.results[0][0] in (Status.SUCCESS, Status.PROCESSOR_DIED)
    found_late = statuses_of_many(scheduler, 5000)  # at the latest when the process is given tasks again
    assert found_late[Status.SUCCESS] + found_late[Status.PROCESSOR_DIED] == 200
    assert statuses_of_many(scheduler, 6000) == {Status.SUCCESS: 200}
    assert command.process.poll() is None and "Traceback" not in command.output


def test_one_that_prints_without_end_does_not_keep_its_agent_from_others() -> None:
    with agent(2) as (scheduler, command):
        scheduler.submit(loop_to_stderr, [()])
        scheduler.serve(lambda: len(command.output) > 10_000_000)
        scheduler.submit(len, [("ab",)] * 100, first=100)
        scheduler.serve(lambda: sum(task >= 100 for task in scheduler.results) == 100)
