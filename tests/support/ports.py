"""Ports for servers of the tests."""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator

_FIRST, _END = 20_000, 32_000
"""Below the ports that Linux gives to connections, and to servers that ask for any port. One of those could go to
another program while the test has no server there: before its start, or between two of them."""


def free_port() -> int:
    """Return a port on which nothing listens. No other worker process of pytest gets it, nor does this one soon."""
    return next(filter(_is_free, _ports))


def free_address() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


def _own_ports() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = range(_FIRST, _END)[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    start = random.randrange(len(own))  # several runs of the tests may share the machine
    return itertools.cycle([*own[start:], *own[:start]])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_ports = _own_ports()
