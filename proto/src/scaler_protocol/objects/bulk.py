"""The bulk connections of a store: one for each control connection (see ``exchange``) whose ends can open one.

The control connection authenticates both ends and carries what is asked; the bulk connection carries bytes only.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import ssl
import time
from dataclasses import dataclass

from scaler_protocol.objects.bulk_channel import Channel, Traffic, client_context, server_context
from scaler_protocol.objects.bulk_frames import Bytes, Piece
from scaler_protocol.objects.bulk_offers import NAME_BYTES, SEALING_KEY_BYTES, TOKEN_BYTES, Offer, can_seal
from scaler_protocol.objects.certificate import Certificate
from scaler_protocol.transport.pending_handshakes import PendingHandshakes
from scaler_protocol.transport.prompt_delivery import deliver_promptly

OPEN_SECONDS = 2.0
"""A bulk connection that is not open after this time is given up: a firewall may drop it without an answer."""

_ACCEPTED_AT_ONCE = 4
_BACKLOG = 128
_REST_SECONDS = 1.0
_NEWCOMERS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Change:
    """A bulk connection was opened, could not be opened, or has ended."""

    label: str
    is_open: bool


class Bulk:
    """``fd`` is readable when ``move`` has something to do."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._poll = select.epoll()
        self._listening: socket.socket | None = None
        self._port = 0
        self._server_context: ssl.SSLContext | None = None
        self._client_context: ssl.SSLContext | None = None
        self._fingerprint = b""
        self._offers: dict[bytes, tuple[str, Offer]] = {}  # by name: those whose connection has not been opened
        self._channels: dict[int, Channel] = {}  # by descriptor
        self._by_label: dict[str, Channel] = {}
        self._opening: dict[str, float] = {}  # dialed ones: when they are given up
        self._pending_handshakes = PendingHandshakes(seconds_limit=_NEWCOMERS_SECONDS)
        self._has_warned = False
        self._rests_until: float | None = None  # without a descriptor, it accepts nothing

    @property
    def fd(self) -> int:
        return self._poll.fileno()

    def listen(self, host: str, encrypted: bool) -> None:
        """On a port of its own. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host.strip("[]"), 0), family=family, backlog=_BACKLOG)
        listening.setblocking(False)
        self._listening, self._port = listening, listening.getsockname()[1]
        if encrypted:
            certificate = Certificate()
            self._server_context = server_context()
            certificate.load_into(self._server_context)
            self._fingerprint = certificate.fingerprint
        self._poll.register(listening.fileno(), select.EPOLLIN)

    def offer(self, label: str) -> tuple[str, ...]:
        """Return the features of the Welcome for a peer that may open one bulk connection, which is called ``label``
        here. With keys there are two to choose from, because not every peer can seal."""
        if self._listening is None:
            return ()
        self.withdraw(label)
        made = [self._new_offer(self._fingerprint)]
        if self._fingerprint and can_seal():
            made.append(self._new_offer(key=os.urandom(SEALING_KEY_BYTES)))
        self._offers.update((each.name, (label, each)) for each in made)
        return tuple(each.to_feature() for each in made)

    def _new_offer(self, fingerprint: bytes = b"", key: bytes = b"") -> Offer:
        return Offer(self._port, os.urandom(NAME_BYTES), os.urandom(TOKEN_BYTES), fingerprint, key)

    def withdraw(self, label: str) -> None:
        """The control connection is gone: its bulk connection ends, or is not accepted any more."""
        self._offers = {name: found for name, found in self._offers.items() if found[0] != label}
        self._opening.pop(label, None)
        channel = self._by_label.pop(label, None)
        if channel is not None:
            self._remove(channel)

    def dial(self, label: str, host: str, offer: Offer) -> None:
        """Then a Change says how it went. Raises OSError."""
        if offer.fingerprint and self._client_context is None:
            self._client_context = client_context()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connected = socket.socket(family, socket.SOCK_STREAM)
        connected.setblocking(False)
        error = connected.connect_ex((host.strip("[]"), offer.port))
        if error not in (0, errno.EINPROGRESS):
            connected.close()
            raise OSError(error, os.strerror(error))
        context = self._client_context if offer.fingerprint else None
        self._by_label[label] = self._add(Channel(_tuned(connected), context, label, offer=offer))
        self._opening[label] = time.monotonic() + OPEN_SECONDS

    def is_open(self, label: str) -> bool:
        channel = self._by_label.get(label)
        return channel is not None and channel.is_open

    def send(self, label: str, piece: Piece, content: Bytes) -> bool:
        """False: there is no such connection."""
        channel = self._by_label.get(label)
        if channel is None or not channel.is_open:
            return False
        channel.send(piece, content)
        self._watch(channel)
        return True

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        if self._listening is not None:
            self._listening.close()
        self._poll.close()

    def next_deadline(self) -> float | None:
        if any(channel.has_more for channel in self._channels.values()):
            return 0.0
        times = [*self._opening.values(), *filter(None, [self._pending_handshakes.next_deadline(), self._rests_until])]
        return min(times, default=None)

    # ---- what happens ----------------------------------------------------------------------------------------------

    def move(self) -> list[Change]:
        """All connections get a turn."""
        changes: list[Change] = []
        events = dict(self._poll.poll(0))
        if self._listening is not None and events.pop(self._listening.fileno(), 0):
            self._accept(self._listening)
        for fd, channel in list(self._channels.items()):
            event = events.get(fd, 0) | (select.EPOLLIN if channel.has_more else 0)
            if event and fd in self._channels:
                self._turn(channel, event, changes)
        self._end_late(time.monotonic(), changes)
        self._listen_again(time.monotonic())
        return changes

    def _turn(self, channel: Channel, event: int, changes: list[Change]) -> None:
        was_open = channel.is_open
        try:
            channel.on_ready(event, self._traffic)
        except (OSError, ValueError) as error:
            self._lose(channel, str(error), changes)
            return
        if channel.is_open and not was_open:
            self._on_open(channel)
            changes.append(Change(channel.label, True))
        self._watch(channel)

    def _on_open(self, channel: Channel) -> None:
        self._pending_handshakes.remove(channel.fd)
        self._opening.pop(channel.label, None)
        self._by_label[channel.label] = channel
        self._offers = {name: found for name, found in self._offers.items() if found[0] != channel.label}

    def _lose(self, channel: Channel, why: str, changes: list[Change]) -> None:
        was_opening = self._opening.pop(channel.label, None) is not None
        if was_opening:
            self._warn(why)
        self._remove(channel)
        if channel.label and self._by_label.get(channel.label) is channel:
            del self._by_label[channel.label]
            changes.append(Change(channel.label, False))

    def _end_late(self, now: float, changes: list[Change]) -> None:
        for fd in self._pending_handshakes.late(now):
            self._remove(self._channels[fd])
        for label in [label for label, deadline in self._opening.items() if now >= deadline]:
            self._lose(self._by_label[label], "no answer", changes)

    def _warn(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            logging.warning(
                f"Cannot open a bulk connection to another object store: {why}. Large objects travel more slowly. Let"
                " hosts of the cluster connect to all ports of one another."
            )

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connected, _ = listening.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._rest(listening)
                return
            connected.setblocking(False)
            channel = self._add(Channel(_tuned(connected), self._server_context, find=self._find_offer))
            for fd in self._pending_handshakes.add(channel.fd, time.monotonic()):
                self._remove(self._channels[fd])

    def _find_offer(self, name: bytes) -> tuple[str, Offer] | None:
        """Look up an offer that holds now: it may be withdrawn, or used, while a connection is being opened."""
        return self._offers.get(name)

    def _rest(self, listening: socket.socket) -> None:
        """No descriptor is left: accept nothing for a moment, instead of being woken at once again."""
        self._poll.unregister(listening.fileno())
        self._rests_until = time.monotonic() + _REST_SECONDS

    def _listen_again(self, now: float) -> None:
        if self._rests_until is not None and now >= self._rests_until and self._listening is not None:
            self._rests_until = None
            self._poll.register(self._listening.fileno(), select.EPOLLIN)

    def _add(self, channel: Channel) -> Channel:
        self._channels[channel.fd] = channel
        self._poll.register(channel.fd, channel.events)
        return channel

    def _watch(self, channel: Channel) -> None:
        self._poll.modify(channel.fd, channel.events)

    def _remove(self, channel: Channel) -> None:
        self._pending_handshakes.remove(channel.fd)
        del self._channels[channel.fd]
        self._poll.unregister(channel.fd)
        channel.close()


def _tuned(connected: socket.socket) -> socket.socket:
    """The kernel notices a host that has vanished, and sends what is small at once."""
    deliver_promptly(connected)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
    return connected
