"""What a scheduler listens on beside a loopback port without keys."""

from __future__ import annotations

import os

from scaler_protocol.transport.zmtp_listener import ZmtpListener


class TwinListener:
    """``connections`` serves those of the twin of this name, and watches libzmq's ``socket_fd`` together with them.
    ``lost_fd`` is readable when ``take_lost`` may have something. Raises OSError."""

    def __init__(self, name: str, socket_fd: int) -> None:
        self.lost_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.connections = ZmtpListener(socket_fd, self._tell_lost)
        try:
            self.connections.listen(name)
        except BaseException:
            self.close()
            raise

    def take_lost(self) -> int:
        """How many connections have ended since the last call."""
        try:
            os.eventfd_read(self.lost_fd)
        except BlockingIOError:
            pass
        return self.connections.take_lost()

    def close(self, linger_milliseconds: int = 0) -> None:
        self.connections.close(linger_milliseconds)
        os.close(self.lost_fd)

    def _tell_lost(self) -> None:
        os.eventfd_write(self.lost_fd, 1)
