"""Events of the connections of a scheduler's socket."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable

import zmq

from scaler_protocol.transport.connection_gate import ConnectionGate
from scaler_protocol.transport.descriptor_set import DescriptorSet
from scaler_protocol.transport.socket_monitor import SocketMonitor
from scaler_protocol.transport.timer import Timer
from scaler_protocol.transport.unauthenticated_limits import UnauthenticatedLimits

_LOOK_SECONDS = 0.05
"""Period in which unauthenticated connections are checked while there are any: what they send in between is
received."""

_REST_SECONDS = 0.02
"""After events were read, until they are waited for again: connections may come and go by the thousand."""


class RouterMonitor:
    """``on_ended`` is told the descriptor of each connection of libzmq's that has ended."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        watched: zmq.Socket[bytes],
        on_ended: Callable[[int], object],
    ) -> None:
        self._monitor = SocketMonitor(context, watched, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._on_ended = on_ended
        self._lost_count = 0
        self._unauthenticated = UnauthenticatedLimits()
        self._descriptor_set: DescriptorSet | None = None
        self._timer: Timer | None = None
        self._rest: Timer | None = None
        self._rests = False
        self._welcomed: set[int] = set()
        self._gate: ConnectionGate | None = None

    @property
    def fd(self) -> int:
        """Readable when there may be something to do: then call ``take_lost``."""
        return self._descriptor_set.fd if self._descriptor_set is not None else self._monitor.fd

    def guard(self) -> None:
        """Treat connections as unauthenticated from now on, until they are admitted. Linux only."""
        if self._descriptor_set is not None:
            return
        self._descriptor_set = DescriptorSet()
        self._timer, self._rest = Timer(), Timer()
        for fd in (self._monitor.fd, self._timer.fd, self._rest.fd):
            self._descriptor_set.add(fd, select.EPOLLIN)

    def limit_rate(self, listening_fd: int) -> None:
        """Refuse connections of addresses that open too many on this socket without authenticating; after ``guard``."""
        self._gate = ConnectionGate(listening_fd)
        self.watch(self._gate.fd)

    def watch(self, fd: int) -> None:
        """One more descriptor that makes ours readable; after ``guard``."""
        assert self._descriptor_set is not None
        self._descriptor_set.add(fd, select.EPOLLIN)

    def forget(self, fd: int) -> None:
        if self._descriptor_set is not None:
            self._descriptor_set.remove(fd)

    def welcome(self, fds: Iterable[int]) -> None:
        """The peers of these connections have authenticated."""
        self._read()  # or it might be told later that they have come
        for fd in fds:
            self._unauthenticated.remove(fd)
            self._welcomed.add(fd)
            if self._gate is not None:
                self._gate.admit(fd)

    def end(self, fds: Iterable[int]) -> None:
        """End these connections."""
        self._read()
        for fd in fds:
            self._unauthenticated.end(fd)

    def take_lost(self) -> int:
        """Return how many connections have ended since the last call, apart from unauthenticated ones (after
        ``guard``)."""
        if self._rest is not None and self._rest.take() and self._descriptor_set is not None:
            self._rests = False
            self._descriptor_set.add(self._monitor.fd, select.EPOLLIN)
        if self._read():
            self._rest_for_a_while()
        if self._timer is not None and self._timer.take():
            self._unauthenticated.cut(time.monotonic())
            self._look_later()
        if self._gate is not None:
            self._gate.update(time.monotonic())
        count, self._lost_count = self._lost_count, 0
        return count

    def close(self) -> None:
        """Before its socket."""
        self._monitor.close()
        self._unauthenticated.close()
        for used in (self._gate, self._descriptor_set, self._timer, self._rest):
            if used is not None:
                used.close()

    def _read(self) -> bool:
        """Return whether anything has happened."""
        events = self._monitor.events()
        for event, fd in events:
            if event == zmq.EVENT_DISCONNECTED:
                self._lost_count += self._timer is None or fd in self._welcomed
                self._welcomed.discard(fd)
                self._unauthenticated.remove(fd)
                if self._gate is not None:
                    self._gate.forget(fd)
                self._on_ended(fd)
            elif self._timer is not None:
                self._unauthenticated.add(fd, time.monotonic())
                if self._gate is not None:
                    self._gate.add(fd, time.monotonic())
                if len(self._unauthenticated) == 1:
                    self._look_later()
        return bool(events)

    def _rest_for_a_while(self) -> None:
        if self._descriptor_set is not None and self._rest is not None and not self._rests:
            self._rests = True
            self._descriptor_set.remove(self._monitor.fd)
            self._rest.set(_REST_SECONDS)

    def _look_later(self) -> None:
        if self._timer is not None and self._unauthenticated:
            self._timer.set(_LOOK_SECONDS)
