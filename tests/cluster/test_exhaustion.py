"""Hosts that run out of something: descriptors, processes, memory, disk. Tasks wait, or fail with a reason; nothing
hangs, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler.utility.exceptions import NoWorkerError
from tests.support.commands import Command, command_line, start_scheduler
from tests.support.descriptors import free_descriptors
from tests.support.ports import free_address
from tests.support.sabotage import sabotaged_environment
from tests.support.threads import AT_EXIT, no_threads

LIMITED = 'ulimit -n "$0" && exec "$@"'
DEEPEST = 40
"""More than the processes that the limits below leave room for."""

LARGE = 1_000_000

FORKS_FAIL_AFTER_SOME = """
if module == "scaler_worker.worker_process.zygote":
    fork, zygote, count = os.fork, os.getpid(), [0]
    def limited():
        if os.getpid() == zygote:
            count[0] += 1
            if count[0] > 4:
                raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()
    os.fork = limited
"""


@pytest.fixture
def address() -> Iterator[str]:
    chosen = free_address()
    with start_scheduler(chosen):
        yield chosen


def nest(depth: int) -> int:
    if depth == 0:
        return 0
    with Client() as client:
        return client.submit(nest, depth - 1).result() + 1


def nest_until_it_fails(depth: int) -> tuple[int, str]:
    """How deep it went, and why no deeper."""
    if depth == 0:
        return 0, ""
    with Client() as client:
        try:
            deeper, why = client.submit(nest_until_it_fails, depth - 1).result()
        except NoWorkerError as error:
            return 0, str(error)
    return deeper + 1, why


@pytest.mark.parametrize("limit", [40, 72, 104])
def test_nesting_beyond_the_descriptors_of_an_agent_is_an_error_and_not_a_standstill(limit: int, address: str) -> None:
    with Command(["sh", "-c", LIMITED, str(limit), *command_line("scaler_cluster", address, "-n", 1)]) as command:
        command.wait_for_output("started")
        with Client(address) as client:
            with pytest.raises(NoWorkerError, match=r"no more can be started \(Too many open files: .*ulimit -n\)"):
                client.submit(nest, DEEPEST).result()
            reached, why = client.submit(nest_until_it_fails, DEEPEST).result()
            assert "Too many open files" in why
            assert client.submit(nest, reached).result() == reached
        assert "Traceback" not in command.output


def test_nesting_beyond_the_processes_of_a_host_is_an_error_and_not_a_standstill(tmp_path: Path, address: str) -> None:
    environment = sabotaged_environment(tmp_path, FORKS_FAIL_AFTER_SOME)
    with Command(command_line("scaler_cluster", address, "-n", 1), environment) as command:
        command.wait_for_output("started")
        with Client(address) as client:
            with pytest.raises(NoWorkerError, match=r"allows no more processes \(ulimit -u\)"):
                client.submit(nest, DEEPEST).result()
            assert client.map(len, ["ab"] * 10) == [2] * 10
        assert "Traceback" not in command.output and "zygote ended" not in command.output


def test_a_client_without_descriptors_is_refused_in_one_sentence(address: str) -> None:
    with free_descriptors(8), pytest.raises(OSError, match=r"^Cannot create a client: .*ulimit -n"):
        Client(address)


def test_a_client_for_which_there_is_no_thread_is_refused_in_one_sentence(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with no_threads(monkeypatch), pytest.raises(RuntimeError, match=r"^Cannot create a client: .*ulimit -u"):
        Client(address)
    Client(address).disconnect()


def test_a_client_at_the_exit_of_the_interpreter_is_refused_with_that_reason(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.12 starts no threads when the main thread has ended."""
    with (
        no_threads(monkeypatch, AT_EXIT),
        pytest.raises(RuntimeError, match="^Cannot create a client: the interpreter is"),
    ):
        Client(address)


def test_large_values_of_a_client_without_descriptors_go_through_the_scheduler(address: str) -> None:
    with Command(command_line("scaler_cluster", address, "-n", 1)) as command:
        command.wait_for_output("started")
        with Client(address) as client:
            assert client.submit(len, b"").result() == 0
            with free_descriptors(0):
                assert client.submit(len, bytes(LARGE)).result() == LARGE
                assert client.submit(bytes, LARGE).result() == bytes(LARGE)
