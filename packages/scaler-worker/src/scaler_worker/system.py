"""Information and services of Linux, beyond the standard library."""

from __future__ import annotations

import ctypes
import os
import signal

from scaler_protocol.control_groups import processor_limits

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36

_library = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _library.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl failed")


def processor_count() -> int:
    """The processors that this process may use: of the host, or of its container."""
    return max(1, min([len(os.sched_getaffinity(0)), *processor_limits()]))


def default_worker_count() -> int:
    """One less than there are processors."""
    return max(1, processor_count() - 1)


def adopt_orphans() -> None:
    """Descendants whose parent ends become this process's children."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent_pid: int) -> None:
    """Be killed when the parent ends; at once when it has ended already."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)
