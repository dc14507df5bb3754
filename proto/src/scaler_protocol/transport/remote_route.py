"""The route to a scheduler on another host without libzmq: a TCP connection which the threads that use
it serve.

Such a peer cannot answer while user code holds the GIL. Its READY message says so, and the scheduler then relies on
the kernel of the peer's host (see ``zmtp_listener``). The peer itself pings a scheduler that is silent.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import threading
import weakref

from scaler_protocol.address import Address
from scaler_protocol.transport.prompt_delivery import deliver_promptly
from scaler_protocol.transport.timer import Timer
from scaler_protocol.transport.zmtp import ZmtpConnection

_BEAT_SECONDS = 0.5
_QUIET_BEATS = 4
"""An idle agent hears its scheduler every two seconds: it need not ping earlier."""

_SILENT_BEATS_LIMIT = _QUIET_BEATS + 2
_HANDSHAKE_BEATS_LIMIT = 20

_streams: weakref.WeakSet[ZmtpConnection] = weakref.WeakSet()


class SchedulerHost:
    """The host of an address. Its name is looked up in a thread, because that may take long."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._places: list[tuple[int, tuple[object, ...]]] = []
        self._lookup: threading.Thread | None = None
        if _is_number(address.host):
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            self._places = [(family, (address.host, address.port))]
        self._has_name = not self._places
        self._next = 0

    def connect(self) -> socket.socket | None:
        """Return a socket that is connecting; successive calls try the host's addresses in turn. Return None while the
        name is being looked up, or if the address cannot be reached. Raises OSError if there is no free descriptor."""
        if self._next >= len(self._places):
            self._next = 0
            if self._has_name:
                self._places = []
        if not self._places:
            self._look_up()
            return None
        family, place = self._places[self._next]
        self._next += 1
        connecting = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        deliver_promptly(connecting)
        error = connecting.connect_ex(place)
        if error in (0, errno.EINPROGRESS):
            return connecting
        connecting.close()
        return None

    def _look_up(self) -> None:
        if self._lookup is None or not self._lookup.is_alive():
            self._lookup = threading.Thread(target=self._resolve, name="scaler-lookup", daemon=True)
            try:
                self._lookup.start()
            except RuntimeError:
                self._lookup = None  # the next call tries again

    def _resolve(self) -> None:
        try:
            found = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
        except OSError:
            return
        self._places = [(family, place) for family, _, _, _, place in found]


class SilenceWatch:
    """Ends a stream whose other end no longer answers. Time is counted in beats of this process: while it did not run,
    the other end was not silent."""

    def __init__(self) -> None:
        self._timer = Timer()
        self._silent_beats = 0

    @property
    def fd(self) -> int:
        """Readable when ``look`` has something to do."""
        return self._timer.fd

    def begin(self, stream: ZmtpConnection) -> None:
        self._silent_beats = 0
        self._timer.set(_BEAT_SECONDS)
        _streams.add(stream)

    def look(self, stream: ZmtpConnection) -> None:
        if not self._timer.take():
            return
        self._timer.set(_BEAT_SECONDS)
        if stream.take_sign_of_life():
            self._silent_beats = 0
            return
        self._silent_beats += 1
        is_connecting = not stream.is_ready and stream.waiting_bytes > 0
        limit = 0 if is_connecting else _SILENT_BEATS_LIMIT if stream.is_ready else _HANDSHAKE_BEATS_LIMIT
        if self._silent_beats > limit:
            stream.hang_up()
        elif self._silent_beats > _QUIET_BEATS:
            stream.ping()

    def close(self) -> None:
        self._timer.close()


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return "%" not in host


def _close_in_child() -> None:
    """The connection ends with the process that made it, although a child that it has forked lives on."""
    for stream in list(_streams):
        stream.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
