"""A watcher's connection to the monitor address, the same for every screen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import PeerKeys, peer_keys
from scaler_protocol.messages import Role
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.feed import RefusedError
from scaler_protocol.monitor.socket_paths import find_socket

if TYPE_CHECKING:
    from scaler_protocol.monitor.local_stream import LocalStream
    from scaler_protocol.monitor.network_stream import NetworkStream

__all__ = ["RefusedError", "Subscription"]


class Subscription:
    """Reconnects by itself. ``address`` is a monitor address, or that of a scheduler of this machine that publishes at
    the default address. ``socket`` is for a ``zmq.Poller``, ``fileno`` for other event loops, which
    call ``receive`` once at the start and then until there is nothing. ValueError for invalid addresses, and for keys
    that cannot be used; ``keys`` is their folder, None: the one that $SCALER_KEYS names.

    With ``events`` it first gets the recent past, then what happens; otherwise snapshots only, which costs the
    scheduler less."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: Address | str,
        events: bool = False,
        keys: Path | str | None = None,
    ) -> None:
        parsed = parse_address(address) if isinstance(address, str) else address
        self._stream = _open(context, parsed, _topics(events), keys)
        self.socket = self._stream.socket

    def fileno(self) -> int:
        return self._stream.fileno()

    def receive(self) -> feed.Received | None:
        """The next message; None: nothing waits. FeedError when it cannot be read, RefusedError when none will come;
        for the latter this is to be called now and then, though ``socket`` has nothing."""
        payload = self._stream.receive()
        return feed.decode(payload) if payload is not None else None

    def close(self) -> None:
        self._stream.close()


def _topics(events: bool) -> list[bytes]:
    return [*((feed.new_history_topic(), feed.EVENTS_KIND) if events else ()), feed.SNAPSHOT_KIND]


def _open(
    context: zmq.Context[zmq.Socket[bytes]], address: Address, topics: list[bytes], keys: Path | str | None
) -> LocalStream | NetworkStream:
    key_pair = _read_keys(address, keys)
    if _is_local(address, key_pair):
        from scaler_protocol.monitor.local_stream import LocalStream

        return LocalStream(address, topics)
    if address.scheme == "ipc":
        raise ValueError(f"{address} is the address of a Linux machine. Use a tcp:// address here.")
    from scaler_protocol.monitor.network_stream import NetworkStream

    return NetworkStream(context, address, topics, key_pair)


def _is_local(address: Address, keys: PeerKeys | None) -> bool:
    """The publisher is on this machine and needs no keys: at a socket's path, at a loopback port, or by default where
    the scheduler at this address has made its socket."""
    if sys.platform != "linux" or address.scheme == "inproc":
        return False
    if address.scheme == "ipc" or (address.is_local and keys is None):
        return True
    return bool(find_socket(address))


def _read_keys(address: Address, folder: Path | str | None) -> PeerKeys | None:
    try:
        return peer_keys(address, Role.OBSERVE, Path(folder) if folder else None)
    except OSError as error:
        raise ValueError(str(error)) from None
