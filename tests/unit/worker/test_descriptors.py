"""An agent under a limit of descriptors."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from scaler_protocol.messages import Status
from tests.support.commands import Command, command_line
from tests.unit.worker.fake_scheduler import FakeScheduler

LIMITED = 'ulimit -Sn "$0" && ulimit -Hn "$1" && shift && exec "$@"'


@contextmanager
def limited_agent(soft: int, hard: int, workers: int) -> Iterator[tuple[FakeScheduler, Command]]:
    with FakeScheduler() as scheduler:
        arguments = command_line("scaler_cluster", scheduler.address, "-n", workers, "--heartbeat-interval", 0.1)
        with Command(["sh", "-c", LIMITED, str(soft), str(hard), *arguments]) as command:
            scheduler.wait_for_agent()
            yield scheduler, command


def limits_of_this_process() -> tuple[int, int]:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)


def ready_workers(command: Command) -> int:
    return command.output.count("] started")


def test_more_workers_than_the_soft_limit_allows_and_tasks_that_do_not_notice() -> None:
    with limited_agent(48, 512, 20) as (scheduler, command):
        scheduler.serve(lambda: ready_workers(command) == 20)
        zygote = next(each for each in psutil.Process(command.pid).children() if "zygote" in " ".join(each.cmdline()))
        zygote.kill()  # another takes its place, of the agent as it is now
        scheduler.serve(lambda: "starting another" in command.output)
        scheduler.submit(limits_of_this_process, [()])
        scheduler.wait_for_results(1)
        status, payload = scheduler.results[0][:2]
        assert status == Status.SUCCESS and pickle.loads(payload) == (48, 512)
        assert "cannot be started" not in command.output


def test_a_soft_limit_too_low_for_an_agent_is_raised_for_it_but_not_for_tasks() -> None:
    with limited_agent(24, 512, 2) as (scheduler, command):
        scheduler.serve(lambda: ready_workers(command) == 2)
        scheduler.submit(limits_of_this_process, [()])
        scheduler.wait_for_results(1)
        status, payload = scheduler.results[0][:2]
        assert status == Status.SUCCESS and pickle.loads(payload) == (24, 512)


def test_workers_that_find_no_descriptors_are_told_of_once_and_tried_again() -> None:
    with limited_agent(48, 48, 12) as (scheduler, command):
        command.wait_for_output(r"cannot be started, it is tried again every 1 s: .*Too many open files")
        scheduler.serve(lambda: ready_workers(command) > 0)
        scheduler.submit(len, [("ab",)] * 20)
        scheduler.wait_for_results(20)
        agent = psutil.Process(command.pid)
        time.sleep(2.5)
        assert agent.num_fds() <= 48
        assert command.output.count("cannot be started") == 1
        assert "Traceback" not in command.output


def test_a_worker_that_found_no_descriptors_starts_when_there_are_some() -> None:
    with limited_agent(256, 256, 3) as (scheduler, command):
        scheduler.serve(lambda: ready_workers(command) == 3)
        agent = psutil.Process(command.pid)
        before = processes(agent)
        agent.rlimit(psutil.RLIMIT_NOFILE, (agent.num_fds(), 256))
        psutil.Process(min(before)).kill()
        scheduler.serve(lambda: "cannot be started" in command.output)
        scheduler.serve_for(0.3)  # status reports have no descriptor either
        assert "Traceback" not in command.output
        agent.rlimit(psutil.RLIMIT_NOFILE, (256, 256))
        scheduler.serve(lambda: len(processes(agent)) == 3)
        assert len(processes(agent) & before) == 2
        scheduler.submit(len, [("ab",)] * 3)
        scheduler.wait_for_results(3)


def processes(agent: psutil.Process) -> set[int]:
    """Its children but the first, which is the zygote."""
    zygote = min(agent.children(), key=psutil.Process.create_time).pid
    return {each.pid for each in agent.children()} - {zygote}
