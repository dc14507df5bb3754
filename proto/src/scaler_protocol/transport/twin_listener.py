"""What a scheduler listens on beside a loopback port without keys."""

from __future__ import annotations

import os
import select

from scaler_protocol.transport.gate import Gate
from scaler_protocol.transport.zmtp_listener import ZmtpListener


class TwinListener:
    """``connections`` serves those of the twin of this name. ``socket_fd`` and ``monitor_fd`` are libzmq's: each is
    watched together with its counterpart of the twin. Raises OSError."""

    def __init__(self, name: str, socket_fd: int, monitor_fd: int) -> None:
        self._lost_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._gate = Gate()
        self._gate.add(self._lost_event, select.EPOLLIN)
        self._gate.add(monitor_fd, select.EPOLLIN)
        self.connections = ZmtpListener(socket_fd, self._tell_lost)
        try:
            self.connections.listen(name)
        except BaseException:
            self.close()
            raise

    @property
    def monitor_fd(self) -> int:
        """Readable when ``take_lost``, or libzmq's monitor, may have something."""
        return self._gate.fd

    def take_lost(self) -> int:
        """How many connections have ended since the last call."""
        try:
            os.eventfd_read(self._lost_event)
        except BlockingIOError:
            pass
        return self.connections.take_lost()

    def close(self, linger_milliseconds: int = 0) -> None:
        self.connections.close(linger_milliseconds)
        self._gate.close()
        os.close(self._lost_event)

    def _tell_lost(self) -> None:
        os.eventfd_write(self._lost_event, 1)
