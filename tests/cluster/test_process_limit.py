"""A user who may start no more processes and threads (ulimit -u): what needs one says so in a sentence, and works when
there are some again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.commands import Command, command_line, descendants, wait_until_bound
from tests.support.ports import free_address
from tests.support.process_limit import LimitedUser, needs_users
from tests.support.waiting import wait_until

pytestmark = needs_users

PLENTY = 1000
LIMIT_NAME = "ulimit -u"

CLIENT = """
import sys
from scaler import Client

def nest(depth):
    from scaler import Client
    if depth == 0:
        return 0
    with Client() as client:
        return client.submit(nest, depth - 1).result() + 1

with Client(sys.argv[1]) as client:
    for depth in map(int, sys.argv[2:]):
        try:
            print(depth, client.submit(nest, depth).result(60))
        except Exception as error:
            print(depth, type(error).__name__, error)
"""

COMBO = """
from scaler import Client, SchedulerClusterCombo

combo = SchedulerClusterCombo(n_workers=1)
try:
    with Client(combo.get_address()) as client:
        print(client.submit(abs, -1).result(60))
finally:
    combo.shutdown()
"""

PUBLISHER = """
from scaler_scheduler.shell import publisher

publisher.listen_at = lambda address: None  # libzmq listens
publisher.Publisher("tcp://127.0.0.1:0").start()
"""

STORE = """
from scaler_protocol.objects.starting import reach

reach(bytes(16), may_start=True)
"""


@pytest.fixture
def user(tmp_path: Path) -> LimitedUser:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    return LimitedUser(tmp_path)


def run(user: LimitedUser, limit: int, arguments: list[str]) -> Command:
    return Command(user.command(limit, arguments), user.environment, cwd="/")


def run_program(user: LimitedUser, limit: int, source: str, *arguments: object) -> tuple[int, str]:
    """The exit code and the output."""
    with run(user, limit, [sys.executable, "-c", source, *map(str, arguments)]) as command:
        return command.wait(), command.output


def test_a_scheduler_starts_its_publisher_when_it_may(user: LimitedUser) -> None:
    address = free_address()
    with run(user, 1, command_line("scaler_scheduler", address)) as scheduler:
        wait_until_bound(address, scheduler)
        scheduler.wait_for_output(rf"The publisher cannot be started \(Resource temporarily .*{LIMIT_NAME}")
        user.allow(scheduler.pid, PLENTY)
        wait_until(lambda: descendants(scheduler.pid), what="the publisher")
        assert "Traceback" not in scheduler.output


def test_a_publisher_that_may_start_no_thread_says_so(user: LimitedUser) -> None:
    code, output = run_program(user, 2, PUBLISHER)
    assert code == 1 and "did not start: the system allows no more threads" in output and LIMIT_NAME in output, output


def test_an_agent_starts_its_workers_when_it_may(user: LimitedUser) -> None:
    address = free_address()
    with run(user, PLENTY, command_line("scaler_scheduler", address)) as scheduler:
        wait_until_bound(address, scheduler)
        with run(user, 1, command_line("scaler_cluster", address, "-n", 1)) as agent:
            agent.wait_for_output(rf"Cannot start the zygote.*{LIMIT_NAME}")
            code, output = run_program(user, PLENTY, CLIENT, address, 0)
            assert code == 0 and "0 NoWorkerError" in output and LIMIT_NAME in output
            user.allow(agent.pid, PLENTY)
            agent.wait_for_output(r"Worker\[0\] started")
            assert run_program(user, PLENTY, CLIENT, address, 0) == (0, "0 0\n")
            assert "Traceback" not in agent.output


def test_nested_tasks_that_find_no_process_fail_with_the_reason(user: LimitedUser) -> None:
    address = free_address()
    with run(user, PLENTY, command_line("scaler_scheduler", address)) as scheduler:
        wait_until_bound(address, scheduler)
        with run(user, 14, command_line("scaler_cluster", address, "-n", 1)) as agent:
            agent.wait_for_output(r"Worker\[0\] started")
            code, output = run_program(user, PLENTY, CLIENT, address, 0, 30, 0)
            first, deep, last = output.splitlines()
            assert (code, first, last) == (0, "0 0", "0 0")
            assert deep.startswith(("30 NoWorkerError", "30 RuntimeError Cannot create a client: ")), output
            assert LIMIT_NAME in deep
            assert "Traceback" not in agent.output


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_a_cluster_in_a_script_ends_with_a_reason_and_never_hangs(limit: int, user: LimitedUser) -> None:
    code, output = run_program(user, limit, COMBO)
    assert LIMIT_NAME in output, output
    assert code == 1 or output.splitlines()[-1] == "1", output


@pytest.mark.parametrize("limit", [1, 2])
def test_an_object_store_for_which_there_is_no_process_has_a_reason(limit: int, user: LimitedUser) -> None:
    code, output = run_program(user, limit, STORE)
    assert code == 1 and "StoreUnavailable" in output and LIMIT_NAME in output, output
