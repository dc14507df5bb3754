"""Messages to the service manager (systemd) that started this command, in the protocol of ``sd_notify``."""

from __future__ import annotations

import functools
import os
import socket

VARIABLE = "NOTIFY_SOCKET"
"""Environment variable from the service manager: a path, or ``@`` and an abstract name."""


def notify(**assignments: str) -> None:
    """Send assignments such as ``READY="1"``. Without a service manager, or without one that reads, nothing happens: a
    command must serve whether or not anyone hears of it."""
    name = _socket_name()
    if not name:
        return
    text = "\n".join(f"{key}={value}" for key, value in assignments.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            sender.sendto(text.encode(), name)
    except OSError:
        pass


@functools.cache
def _socket_name() -> str:
    """Takes the variable out of the environment, so that processes started from here do not see it."""
    name = os.environ.pop(VARIABLE, "")
    return "\0" + name[1:] if name.startswith("@") else name
