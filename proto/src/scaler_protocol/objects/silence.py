"""Decides when a silent store is considered dead. One that is stopped, or stuck, is ended, and what follows is what
follows the death of a store.

Time is counted in periods of the process that asks, ``PERIOD_SECONDS`` of its running time: when both were stopped, or
the machine slept, no time has passed. A store that is at work, or waits for a disk, gets more of it.
"""

from __future__ import annotations

import os
import signal
import socket

from scaler_protocol.objects.names import peer_process

PERIOD_SECONDS = 3.0

ENDED_TEXT = "The object store of this host stopped responding and was killed."

_IDLE_PERIODS = 5
"""A store that does nothing has so many periods to answer in."""

_BUSY_PERIODS = 20


class Silence:
    """The silence of the store at the other end of ``connected``. It is told of every period, and when something is
    heard."""

    def __init__(self, connected: socket.socket) -> None:
        self.pid = peer_process(connected)
        self._connected = connected
        self._periods = 0
        self._cpu_ticks = -1

    def end(self) -> None:
        """Something was heard."""
        self._periods = 0

    def is_final(self) -> bool:
        """Another period has passed without a word, although something was asked. True: the store was ended for it, if
        it can be from here; it is not to be waited for in any case."""
        self._periods += 1
        is_busy = self._is_busy()
        if self._periods < (_BUSY_PERIODS if is_busy else _IDLE_PERIODS):
            return False
        self._kill()
        return True

    def _is_busy(self) -> bool:
        """It has used a processor since the last period, or is inside a disk."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return False
        before, self._cpu_ticks = self._cpu_ticks, int(fields[11]) + int(fields[12])
        return fields[0] == "D" or 0 <= before < self._cpu_ticks

    def _kill(self) -> None:
        """Kill the process at the other end. While the connection stands its process lives, so the number names no
        other process if it is taken before. A process in another namespace (a container) cannot be ended from here, and
        0 would mean all of our own group."""
        if not self.pid:
            return
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        except (OSError, AttributeError):  # Linux before 5.3, and some containers
            self._kill_by_number()
            return
        try:
            if self._stands():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except OSError:
            pass  # it has ended
        finally:
            os.close(descriptor)

    def _kill_by_number(self) -> None:
        if self._stands():
            try:
                os.kill(self.pid, signal.SIGKILL)
            except OSError:
                pass

    def _stands(self) -> bool:
        try:
            return bool(self._connected.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False
