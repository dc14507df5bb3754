"""Where tasks are, seen from outside."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ControlError
from tests.support.commands import child_environment, command_line, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


def sleep_long(path: Path) -> None:
    path.touch()
    time.sleep(60)


def hold_the_interpreter(path: Path) -> int:
    """The GIL is not released meanwhile."""
    path.touch()
    return sum(itertools.repeat(1, 400_000_000))


def use_threads(path: Path) -> None:
    thread = threading.Thread(target=sleep_long, args=(path,), daemon=True)
    thread.start()
    thread.join(60)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Exists when the task has begun."""
    return tmp_path / "begun"


def test_a_running_task_shows_its_frames_and_goes_on(begun: Path) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        future = client.submit(hold_the_interpreter, begun)
        wait_until(begun.exists)
        stack = client.stack(future)
        assert not future.done() and "in hold_the_interpreter" in stack
        assert "scaler_worker" not in stack and "runpy" not in stack
        assert future.result() == 400_000_000
        with pytest.raises(ControlError, match="the task has ended"):
            client.stack(future)


def test_all_threads_are_shown(begun: Path) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        future = client.submit(use_threads, begun)
        wait_until(begun.exists)
        stack = client.stack(future)
        assert "in sleep_long" in stack and "in use_threads" in stack
        waiting = client.submit(abs, -1)
        with pytest.raises(ControlError, match="Cannot show the stack"):
            client.stack(waiting)
        future.cancel()


def test_a_worker_from_the_command_line_and_a_suspended_one(begun: Path) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-wn", "vm"), Client(address) as client:
        future = client.submit(sleep_long, begun)
        wait_until(begun.exists)
        assert "in sleep_long" in scaler("stack", address, "vm").stdout
        (worker,) = client.cluster_info().workers
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(ControlError, match="did not answer"):
            client.stack(future)
        os.kill(worker.pid, signal.SIGCONT)
        assert "in sleep_long" in client.stack("vm")
        future.cancel()
        wrong = scaler("stack", address, "nobody")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
        assert "no worker has the name 'nobody'" in wrong.stderr


def scaler(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_line("scaler", *arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env=child_environment(),
    )  # fmt: skip


def test_a_client_answers_for_its_own_tasks_only(client: Client, combo: SchedulerClusterCombo) -> None:
    """Both tasks have the same number."""
    with Client(combo.get_address()) as other:
        future, own = client.submit(abs, -1), other.submit(abs, -2)
        for ask in (other.explain, other.stack, other.output):
            with pytest.raises(ValueError, match="it is a task of another client. Ask the client that has submitted"):
                ask(future)
        assert (future.result(), own.result()) == (1, 2)
