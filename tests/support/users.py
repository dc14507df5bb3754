"""Another user of this machine."""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  # another user may not be able to read the library
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_nobody(act: Callable[[], object]) -> int:
    """Do something in a child process of another user, and return its id. Its exit code is 0 if nothing was raised."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            act()
            code = 0
        os._exit(code)
    return child


@contextmanager
def another_user(act: Callable[[], object]) -> Iterator[int]:
    """Do something in a process of another user, which then sleeps until the end of the context. Yields the id of that
    user. Skips the test if this process cannot become another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _act(act, theirs)
    theirs.close()
    try:
        said = ours.recv(1000).decode()
        assert said == "done", said
        yield NOBODY
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        ours.close()


def _act(act: Callable[[], object], channel: socket.socket) -> None:
    """Never returns: this is a copy of the test's process."""
    try:
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        kept = act()
        channel.sendall(b"done")
        signal.pause()
        del kept
    except BaseException as error:
        channel.sendall(repr(error).encode()[:1000])
    finally:
        os._exit(1)


def listen(path: str) -> socket.socket:
    """Return a unix socket that listens at the path and accepts processes of every user."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen()
    return listener
