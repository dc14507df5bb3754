"""Commands whose stdout and stderr nothing reads, or which have none. They work all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from scaler import Client
from tests.support.commands import child_environment, command_line
from tests.support.ports import free_address

SIZE = 200_000


def print_much(size: int) -> int:
    print("x" * size)
    print("y" * size, file=sys.stderr)
    return size


@contextmanager
def to_full_pipe(arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        try:
            while os.write(writer, bytes(size)):
                pass
        except BlockingIOError:
            continue
    os.set_blocking(writer, True)
    with subprocess.Popen(arguments, stdout=writer, stderr=writer, env=child_environment()) as process:
        os.close(writer)
        yield process
    os.close(reader)


@contextmanager
def without_output(arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    closing = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *arguments]
    with subprocess.Popen(closing, env=child_environment()) as process:
        yield process


@pytest.mark.parametrize("run", [to_full_pipe, without_output])
def test_a_cluster_whose_output_nothing_takes(
    run: Callable[[list[str]], AbstractContextManager[subprocess.Popen[bytes]]],
) -> None:
    address = free_address()
    with ExitStack() as stack:
        processes = []
        for name, *options in (("scaler_scheduler",), ("scaler_cluster", "-n", 1)):
            process = stack.enter_context(run(command_line(name, address, *options, "--logging-level", "DEBUG")))
            stack.callback(process.kill)
            processes.append(process)
        with Client(address) as client:
            assert [client.submit(print_much, SIZE).result() for _ in range(12)] == [SIZE] * 12
            assert client.map(abs, range(2000)) == list(range(2000))
        for process in reversed(processes):
            process.terminate()
            assert process.wait(30) == 0
