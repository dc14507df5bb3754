"""A zygote that dies, hangs or cannot fork, at every point of its work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from scaler_protocol.messages import Status
from tests.support.commands import Command, Stopwatch, command_line
from tests.support.sabotage import sabotaged_environment
from tests.support.waiting import wait_until
from tests.unit.worker.fake_scheduler import FakeScheduler

WORKERS = 2

BEFORE_THE_ANSWER = """
if module == "scaler_worker.worker_process.zygote":
    import signal, socket
    def send(self, data, *flags):
        if first_time():
            {pause}
            os.kill(os.getpid(), signal.SIGKILL)
        return super(socket.socket, self).send(data, *flags)
    socket.socket.send = send
"""

BEFORE_THE_FORK = """
if module == "scaler_worker.worker_process.zygote":
    import signal
    fork = os.fork
    def dying():
        if first_time():
            os.kill(os.getpid(), signal.SIGKILL)
        return fork()
    os.fork = dying
"""

BETWEEN_THE_FORKS = """
if module == "scaler_worker.worker_process.zygote":
    import signal
    fork, zygote = os.fork, os.getpid()
    def dying():
        if os.getpid() != zygote and first_time():
            os.kill(zygote, signal.SIGKILL)
        return fork()
    os.fork = dying
"""

THE_ONE_BETWEEN_DIES = """
if module == "scaler_worker.worker_process.zygote":
    fork, zygote = os.fork, os.getpid()
    def dying():
        if os.getpid() != zygote and first_time():
            os._exit(1)
        return fork()
    os.fork = dying
"""

WITHOUT_DESCRIPTORS = """
if module == "scaler_worker.worker_process.zygote":
    import resource
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    def fail_once(pipe=os.pipe):
        if first_time():
            resource.setrlimit(resource.RLIMIT_NOFILE, (4, limits[1]))
            try:
                return pipe()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        return pipe()
    os.pipe = fail_once
"""

FAULTS = {
    "after it forked, at once": BEFORE_THE_ANSWER.format(pause="pass"),
    "after it forked, when the fork is ready": BEFORE_THE_ANSWER.format(pause="import time; time.sleep(0.5)"),
    "before it forks": BEFORE_THE_FORK,
    "between the two forks": BETWEEN_THE_FORKS,
    "the process between dies": THE_ONE_BETWEEN_DIES,
}


@contextmanager
def sabotaged_agent(folder: Path, source: str, *flags: object) -> Iterator[tuple[FakeScheduler, Command]]:
    with FakeScheduler() as scheduler:
        arguments = command_line("scaler_cluster", scheduler.address, "-n", WORKERS, "-hi", 0.1, *flags)
        with Command(arguments, sabotaged_environment(folder, source)) as command:
            scheduler.wait_for_agent()
            yield scheduler, command


@pytest.mark.parametrize("fault", FAULTS)
def test_an_agent_whose_zygote_dies_over_a_fork_works_and_has_no_process_too_many(fault: str, tmp_path: Path) -> None:
    with sabotaged_agent(tmp_path, FAULTS[fault]) as (scheduler, command):
        scheduler.submit(len, [("ab",)] * 50)
        scheduler.wait_for_results(50)
        assert {row[0] for row in scheduler.results.values()} == {Status.SUCCESS}
        agent = psutil.Process(command.pid)

        def settled() -> bool:
            scheduler.serve_for(0.05)
            return command.output.count("] started") == WORKERS and len(agent.children()) == 1 + WORKERS

        wait_until(settled, 30, "the zygote and one process per worker")
        assert (tmp_path / "mark").exists()
        assert "Traceback" not in command.output


def test_a_zygote_without_descriptors_says_what_it_lacks(tmp_path: Path) -> None:
    with sabotaged_agent(tmp_path, WITHOUT_DESCRIPTORS) as (scheduler, command):
        scheduler.submit(len, [("ab",)] * 50)
        scheduler.wait_for_results(50)
        assert "Too many open files" in command.output and "raise it with ulimit -n" in command.output
        assert "ulimit -u" not in command.output


def test_a_zygote_that_always_dies_is_started_less_and_less_often(tmp_path: Path) -> None:
    source = """
    if module == "scaler_worker.worker_process.zygote":
        os._exit(9)
    """
    with sabotaged_agent(tmp_path, source) as (scheduler, command):
        watch = Stopwatch()
        scheduler.serve(lambda: command.output.count("The zygote ended") >= 5)
        assert watch.seconds > 0.2 + 0.4 + 0.8
        assert command.process.poll() is None and "Traceback" not in command.output
