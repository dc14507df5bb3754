"""The faults: a process is killed or stopped, its connections are cut, its descriptors run out.

Each function returns whether the fault happened.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import psutil

LONGEST_SECONDS = 4.0
CUT_SHARE = 0.3
"""The probability that ``cut`` closes a given connection."""

_SHORTEST_SECONDS = 0.05
_SYS_PIDFD_GETFD = 438
_AGENT_SOCKET = b"\0scaler-agent-"
_library = ctypes.CDLL(None, use_errno=True)


def kill(process: psutil.Process, chance: random.Random) -> bool:
    process.kill()
    return True


def stop(process: psutil.Process, chance: random.Random) -> bool:
    process.suspend()
    try:
        time.sleep(chance.uniform(_SHORTEST_SECONDS, LONGEST_SECONDS))
    finally:
        process.resume()
    return True


def cut(process: psutil.Process, chance: random.Random) -> bool:
    """Shut down some connections. Both ends see them end."""
    chosen = [descriptor for descriptor in _sockets_of(process.pid) if chance.random() < CUT_SHARE]
    return any([_shut_down(process.pid, descriptor) for descriptor in chosen])


def starve(process: psutil.Process, chance: random.Random) -> bool:
    """Leave the process only a few free descriptors for a while."""
    limits = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (min(process.num_fds() + chance.randrange(8), limits[1]), limits[1]))
    try:
        time.sleep(chance.uniform(_SHORTEST_SECONDS, LONGEST_SECONDS))
    finally:
        process.rlimit(psutil.RLIMIT_NOFILE, limits)
    return True


FAULTS: dict[str, Callable[[psutil.Process, random.Random], bool]] = {
    "kill": kill,
    "stop": stop,
    "cut": cut,
    "starve": starve,
}


def _sockets_of(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.readlink(path).startswith("socket:"):
                found.append(int(path.name))
    return found


def _shut_down(pid: int, descriptor: int) -> bool:
    """Duplicate the descriptor of another process and shut the connection down, if it is one that can fail."""
    pidfd = os.pidfd_open(pid)
    try:
        duplicate = _library.syscall(_SYS_PIDFD_GETFD, pidfd, descriptor, 0)
    finally:
        os.close(pidfd)
    if duplicate < 0:
        return False
    with socket.socket(fileno=duplicate) as connection, contextlib.suppress(OSError):
        if _can_fail(connection, pid):
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


def _can_fail(connection: socket.socket, pid: int) -> bool:
    """Not listening sockets; nor pairs that the process itself has made: one may be its event loop's own, and that of
    a child is cut on the child's side; nor connections of clients inside tasks to their agent, which do not recover."""
    if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return False
    if connection.family != socket.AF_UNIX:
        return True
    return _maker_of(connection) != pid and not any(
        bytes(name).startswith(_AGENT_SOCKET) for name in (connection.getsockname(), connection.getpeername()) if name
    )


def _maker_of(connection: socket.socket) -> int:
    """The process at the other end, or that made both ends of a pair."""
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)
