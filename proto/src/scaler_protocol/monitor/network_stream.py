"""The monitor stream of a scheduler over the network, with or without keys: libzmq's."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import zmq
from zmq.utils.monitor import recv_monitor_message

from scaler_protocol.address import Address
from scaler_protocol.command.threads import lack_of_thread
from scaler_protocol.keys import VARIABLE, PeerKeys
from scaler_protocol.monitor.bounds import MESSAGE_LIMIT_BYTES
from scaler_protocol.monitor.feed import RefusedError
from scaler_protocol.transport.context import new_socket

_RECONNECT_MILLISECONDS = 100
_RECONNECT_LIMIT_MILLISECONDS = 500
_HEARTBEAT_INTERVAL_MILLISECONDS = 500
_HEARTBEAT_TIMEOUT_MILLISECONDS = 3000
_HEARTBEAT_LIFE_MILLISECONDS = 5000
"""The publisher closes the connection, and frees the queue, if no heartbeat of this watcher arrives for this long."""

_RETRY_SECONDS = 1.0
"""Seconds until it connects again after it was refused."""

_NEED = f"set {VARIABLE} to their directory"
_BROKEN_LIMIT = 5
"""This many broken handshakes in a row are not an accident, such as a scheduler that ends."""

_HANDSHAKES = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class NetworkStream:
    """Reconnects by itself. ValueError for what cannot be connected to."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: Address,
        topics: Sequence[bytes],
        keys: PeerKeys | None,
    ) -> None:
        self._address = str(address)
        self._has_keys = keys is not None
        self._broken = 0
        self._connect_at: float | None = None
        try:
            self.socket = new_socket(context, zmq.SUB)
        except RuntimeError as error:
            raise ValueError(f"Cannot connect to {address}: {lack_of_thread(error)}") from None
        self._handshakes = self.socket.get_monitor_socket(_HANDSHAKES)
        if keys is not None:
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server_public)
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, zmq.curve_public(keys.secret))
        _set_options(self.socket)
        self.socket.setsockopt(zmq.IPV6, ":" in address.host)
        for topic in topics:
            self.socket.subscribe(topic)
        try:
            self.socket.connect(self._address)
        except zmq.ZMQError as error:
            self.close()
            raise ValueError(f"Cannot connect to {address}: {error.strerror}.") from None

    def fileno(self) -> int:
        """Tells of changes only (edge-triggered): after it did, and once at the start, receive until there is none."""
        descriptor = self.socket.getsockopt(zmq.FD)
        assert isinstance(descriptor, int)
        return descriptor

    def receive(self) -> bytes | None:
        """The next message's payload; None: nothing waits. RefusedError: none will come for now."""
        try:
            return self.socket.recv_multipart(zmq.DONTWAIT)[-1]
        except zmq.Again:
            self._connect_again()
            self._read_handshakes()
            return None

    def close(self) -> None:
        self.socket.disable_monitor()
        self._handshakes.close()
        self.socket.close()

    def _connect_again(self) -> None:
        """ZeroMQ itself never tries again after a refusal."""
        if self._connect_at is None or time.monotonic() < self._connect_at:
            return
        self._connect_at = None
        with contextlib.suppress(zmq.ZMQError):
            self.socket.disconnect(self._address)
        self.socket.connect(self._address)

    def _read_handshakes(self) -> None:
        while self._handshakes.poll(0):
            event = recv_monitor_message(self._handshakes)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._broken = 0
            elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._broken += 1
                if self._broken >= _BROKEN_LIMIT:
                    raise RefusedError(self._broken_sentence())
            else:
                self._refuse(self._refused_sentence(event))

    def _refuse(self, sentence: str) -> None:
        """Nothing more is read until it is tried again."""
        self._broken, self._connect_at = 0, time.monotonic() + _RETRY_SECONDS
        with contextlib.suppress(zmq.ZMQError):
            self.socket.disconnect(self._address)
        with contextlib.suppress(zmq.Again):
            while True:
                self.socket.recv_multipart(zmq.DONTWAIT)
        raise RefusedError(sentence)

    def _broken_sentence(self) -> str:
        reason = "it has different keys, or none" if self._has_keys else f"if it has keys, {_NEED}"
        return f"{self._address} closes each connection: {reason}."

    def _refused_sentence(self, event: int) -> str:
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return f"{self._address} does not accept these keys. Use the keys of its scheduler: set {VARIABLE}."
        if self._has_keys:
            return f"{self._address} has no keys. Connect without keys: unset {VARIABLE}."
        return f"{self._address} has keys: {_NEED}."


def _set_options(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVHWM, 0)  # a finite one with heartbeats aborts the process when it stalls
    socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_LIMIT_BYTES)
    socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_LIMIT_MILLISECONDS)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, 1000)
    socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_INTERVAL_MILLISECONDS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MILLISECONDS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, _HEARTBEAT_LIFE_MILLISECONDS)
