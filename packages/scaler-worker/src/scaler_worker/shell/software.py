"""Reads which packages this host has. Their number makes it slow, so it neither delays the start nor the event loop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial

from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.threads import start_thread
from scaler_protocol.host_software import installed_software
from scaler_protocol.messages import HostSoftware

READ_AFTER_SECONDS = 0.5
"""The workers have usually started by then."""

RETRY_SECONDS = 10.0


def read_software(loop: GuardedLoop, report: Callable[[HostSoftware], None]) -> None:
    """``report`` is called in ``loop``, unless the loop is closed before."""
    try:
        start_thread(partial(_read, loop, report))
    except RuntimeError:  # there may be one later
        loop.call_later(RETRY_SECONDS, read_software, loop, report)


def _read(loop: GuardedLoop, report: Callable[[HostSoftware], None]) -> None:
    software = installed_software(socket.gethostname())
    try:
        loop.call_soon_threadsafe(report, software)
    except RuntimeError:
        pass  # it is closed
