"""Work that signal handlers do not interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from scaler.shell.interruptions import shielded
from tests.unit.client.interrupter import Interruption


@pytest.fixture
def interrupting() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("interrupting")
def test_an_interruption_is_raised_when_the_work_is_done() -> None:
    main = threading.main_thread().ident
    assert main is not None
    begun, interrupted, done = threading.Event(), threading.Event(), []

    def act() -> None:
        begun.set()
        interrupted.wait(10)
        done.append(True)

    def interrupt() -> None:
        begun.wait(10)
        signal.pthread_kill(main, signal.SIGALRM)
        interrupted.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interruption):
        shielded(act)
    thread.join()
    assert done


def test_what_the_work_raises_is_raised() -> None:
    def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        shielded(fail)


def test_in_another_thread_the_work_is_done_there() -> None:
    threads: list[threading.Thread] = []
    caller = threading.Thread(target=lambda: shielded(lambda: threads.append(threading.current_thread())))
    caller.start()
    caller.join()
    assert threads == [caller]
