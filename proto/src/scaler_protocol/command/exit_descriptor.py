"""A descriptor that is readable when a process has ended, also where there is no pidfd."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

LOOK_SECONDS = 0.2
"""Period in which the parent is checked if the kernel does not report its end."""


def open_exit_descriptor(pid: int) -> int:
    """Open a descriptor that becomes readable when the parent or a child of this process ends. The caller closes it.
    ProcessLookupError: it has ended already.

    Linux before 5.3 and some containers have no pidfd. There a thread waits for the end, and closes a pipe."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (OSError, AttributeError):
        return _open_pipe(_wait_for_parent if pid == os.getppid() else _wait_for_child, pid)


def _open_pipe(wait: Callable[[int], None], pid: int) -> int:
    reader, writer = os.pipe()

    def watch() -> None:
        wait(pid)
        os.close(writer)

    try:
        threading.Thread(target=watch, name=f"end of process {pid}", daemon=True).start()
    except RuntimeError as error:
        os.close(reader)
        os.close(writer)
        raise OSError(str(error))
    return reader


def _wait_for_child(pid: int) -> None:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        pass  # it was reaped elsewhere


def _wait_for_parent(pid: int) -> None:
    while os.getppid() == pid:
        time.sleep(LOOK_SECONDS)
