"""Processes that cannot start threads: a documented error, or a slower way."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from typing import Any, cast

import pytest

from scaler.asynchronous.thread_call import call_in_thread
from scaler.shell.interruptions import is_interruption
from scaler_protocol.address import parse_address
from scaler_protocol.command.logs import LoggingSettings
from scaler_protocol.command.remedies import shortage_text, with_remedy
from scaler_protocol.command.runner import run_command
from scaler_protocol.command.supervised import SupervisedCommand
from scaler_protocol.command.threads import lack_of_thread
from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.push import Pusher
from scaler_protocol.transport.remote_route import SchedulerHost
from scaler_worker.shell import software
from scaler_worker.shell.termination_watch import TerminationWatch
from scaler_worker.worker_process.call_threads import CallThreads
from scaler_worker.worker_process.import_guard import interrupt_later
from tests.support.threads import AT_EXIT, no_threads
from tests.support.waiting import wait_until

KEY = ObjectKey(b"c" * 16, 1)


def test_an_exit_and_a_limit_are_told_apart() -> None:
    assert "ulimit -u" in lack_of_thread(RuntimeError("can't start new thread"))
    at_exit = lack_of_thread(RuntimeError(AT_EXIT))
    assert at_exit.startswith("the interpreter is exiting") and "ulimit" not in at_exit


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EAGAIN, errno.ENOMEM, errno.EFBIG])
def test_what_the_system_refuses_has_a_remedy(number: int) -> None:
    text = with_remedy(OSError(number, os.strerror(number)), "this agent")
    assert text.startswith(f"{os.strerror(number)}: ") and "ulimit -" in text
    assert with_remedy(OSError(errno.EIO, "broken"), "this agent") == "broken"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "ulimit -v"),
        (OSError(errno.ENOMEM, "x"), "ulimit -v"),
        (ImportError("libz.so: failed to map segment from shared object"), "ulimit -v"),
        (SystemError("<built-in function compile> returned NULL without setting an exception"), "ulimit -v"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (OSError(errno.EAGAIN, "x"), "ulimit -u"),
        (OSError(errno.EMFILE, "x"), "ulimit -n"),
    ],
)
def test_a_shortage_has_a_remedy(error: Exception, words: str) -> None:
    assert words in shortage_text(error, "this process")


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EIO, "x"), ImportError("No module named 'x'"), RuntimeError("x"), SystemError("x"), ValueError("x")],
)
def test_other_errors_are_no_shortage(error: Exception) -> None:
    assert shortage_text(error, "this process") == ""


def test_an_object_that_cannot_be_pushed_for_want_of_a_thread_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[tuple[ObjectKey, str]] = []
    pusher = Pusher("tcp://127.0.0.1:1", lambda key, why: failed.append((key, why)))
    with no_threads(monkeypatch):
        pusher.add(KEY, memoryview(b"data"))
    assert [key for key, _ in failed] == [KEY] and "threads" in failed[0][1]
    pusher.add(KEY, memoryview(b"data"))  # a thread tries it again
    wait_until(lambda: len(failed) == 2, 30)
    pusher.close()


def test_a_name_is_looked_up_later_if_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    places = SchedulerHost(parse_address("tcp://localhost:1"))
    with no_threads(monkeypatch):
        assert places.connect() is None
    places.connect()
    wait_until(lambda: bool(places._places), 30)


def test_a_call_of_a_coroutine_says_that_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call() -> None:
        link = type("Link", (), {"loop": asyncio.get_running_loop()})()
        await call_in_thread(link, lambda: None)

    with no_threads(monkeypatch), pytest.raises(RuntimeError, match="^Cannot start a thread for this call: .*ulimit"):
        asyncio.run(call())


def test_a_ctrl_c_counts_as_one_if_there_is_no_thread_to_repeat_what_it_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with no_threads(monkeypatch):
        assert is_interruption(KeyboardInterrupt(), lambda: None)


def test_an_interruption_is_not_repeated_if_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent kills the process then."""
    with no_threads(monkeypatch):
        interrupt_later()


def test_an_actor_runs_its_calls_in_the_threads_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, calls, begun, done, gate = threading.Lock(), [1], list[int](), list[int](), threading.Event()

    def run(call: int) -> None:
        begun.append(call)
        gate.wait(30)
        done.append(call)

    threads = CallThreads(2, lock, lambda: calls.pop() if calls else None, run)
    with lock:
        threads.wake()
    wait_until(lambda: begun == [1], 30)
    with no_threads(monkeypatch), lock:
        calls.append(2)
        threads.wake()
    gate.set()
    wait_until(lambda: done == [1, 2], 30)


def test_an_actor_without_threads_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()
    threads = CallThreads(2, lock, lambda: None, print)
    with no_threads(monkeypatch), lock, pytest.raises(RuntimeError, match="^This actor cannot run calls: .*ulimit -u"):
        threads.wake()


class Later:
    """An event loop that only notes what is to be called later."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def call_later(self, seconds: float, *call: Any) -> None:
        self.calls.append(call)


def test_the_software_of_a_host_is_read_later_if_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run: object) -> None:
        raise RuntimeError("can't start new thread")

    loop = Later()
    monkeypatch.setattr(software, "start_thread", refuse)
    software.read_software(cast(Any, loop), print)
    assert loop.calls == [(software.read_software, loop, print)]


def test_an_agent_goes_on_without_termination_notices_if_there_is_no_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = TerminationWatch(cast(Any, Later()), lambda: False, print)
    with no_threads(monkeypatch):
        watch.begin()
    assert "Cannot watch for termination notices: the system allows no more threads" in caplog.text


def test_a_supervised_command_without_a_thread_is_not_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    command = SupervisedCommand("tests.unit.command.command_under_test", ["tcp://127.0.0.1:1"], "a command")
    with no_threads(monkeypatch), pytest.raises(RuntimeError, match=r"^Cannot start a command: .*ulimit -u"):
        command.start()
    assert not command.is_alive
    command.join(5)


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        (MemoryError(), "this process has no memory left."),
        (ImportError("libz.so: failed to map segment from shared object"), "this process has no memory left."),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files: close files"),
    ],
)
def test_a_command_that_cannot_go_on_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str], lack: Exception, words: str
) -> None:
    def body(settings: LoggingSettings) -> int:
        raise lack

    with pytest.raises(SystemExit) as ended:
        run_command(
            LoggingSettings, body, program="it", section="it", description="", version="1", distribution="it",
            arguments=[],
        )  # fmt: skip
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"it: Cannot continue: {words}") and error.count("\n") == 1
