"""Waiting for one descriptor. ``select`` cannot watch numbers above 1,023. One that another thread has closed (below 0)
is ready: its user finds out when it uses it."""

from __future__ import annotations

import math
import select


def wait_readable(fd: int, seconds: float | None) -> bool:
    """None: without a limit."""
    return _wait(fd, select.POLLIN, seconds)


def wait_writable(fd: int, seconds: float | None) -> bool:
    return _wait(fd, select.POLLOUT, seconds)


def _wait(fd: int, event: int, seconds: float | None) -> bool:
    if fd < 0:
        return True
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(None if seconds is None else max(0, math.ceil(seconds * 1000))))
