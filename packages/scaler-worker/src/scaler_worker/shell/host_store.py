"""The agent's connection to the object store of its host."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from scaler_protocol.address import Address
from scaler_protocol.messages import ObjectKey, ObjectMissing, StoreFound, StoreRefused, StoreSettings, StoreStatus
from scaler_protocol.objects.agent_connection import AgentConnection, Readable
from scaler_protocol.objects.errors import StoreUnavailable


class HostStore:
    """Connects when something is asked of it. ``agent`` has the methods ``store_status(status)``,
    ``store_lost()``, ``stored(key)``, ``not_stored(key, relayed)`` and ``stored_view(key, view)``, and ``heard()``,
    called after all that waited."""

    def __init__(self, loop: asyncio.AbstractEventLoop, agent: Any, settings: StoreSettings) -> None:
        self._loop = loop
        self._agent = agent
        self._settings = settings
        self._cluster = b""
        self._connection: AgentConnection | None = None
        self._watches_write = False
        self._sought: dict[ObjectKey, bool] = {}  # True: fetched from other stores
        self._read: dict[ObjectKey, bool] = {}

    def join(self, cluster: bytes) -> None:
        """The name of the cluster; perhaps another one. Where there may be other hosts, the store is started now: by it
        clients here know that it is of use, and other stores reach it."""
        if cluster != self._cluster:
            self._cluster = cluster
            self._lose()
            if self._settings.host:
                self._opened(True)

    def attach(self) -> None:
        """Something is there: this host's store must be connected."""
        if self._opened(False) is None:
            self._agent.store_lost()
            self._agent.heard()

    def find(self, keys: Sequence[ObjectKey]) -> None:
        connection = self._opened(False)
        for key in keys:
            if connection is None:
                self._agent.not_stored(key, False)
            else:
                self._sought[key] = False
                connection.find(key)
        if connection is None:
            self._agent.heard()
        self._watch()

    def fetch(self, key: ObjectKey, size: int, sources: Sequence[str]) -> None:
        connection = self._opened(True)
        if connection is None:
            self._agent.not_stored(key, True)
            self._agent.heard()
            return
        self._sought[key] = True
        connection.fetch(key, size, sources)
        self._watch()

    def read(self, key: ObjectKey) -> None:
        connection = self._opened(False)
        if connection is None:
            self._agent.stored_view(key, None)
            self._agent.heard()
            return
        self._read[key] = True
        connection.read(key)
        self._watch()

    def drop(self, keys: Sequence[ObjectKey]) -> None:
        if self._connection is not None:
            self._connection.drop(keys)
            self._watch()

    def ask_status(self) -> None:
        """So that the agent is told of it."""
        if self._connection is not None:
            self._connection.ask_status()
            self._watch()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._loop.remove_reader(connection.fd)
            self._loop.remove_writer(connection.fd)
            connection.close()

    # ---- the connection ------------------------------------------------------------------------------------------

    def _opened(self, may_start: bool) -> AgentConnection | None:
        if self._connection is None and self._cluster:
            try:
                self._connection = AgentConnection.open(self._cluster, self._settings, may_start)
            except StoreUnavailable:
                return None
            self._loop.add_reader(self._connection.fd, self._on_readable)
            self._connection.ask_status()
        return self._connection

    def _watch(self) -> None:
        connection = self._connection
        if connection is not None and connection.wants_write and not self._watches_write:
            self._watches_write = True
            self._loop.add_writer(connection.fd, self._on_writable)

    def _on_writable(self) -> None:
        connection = self._connection
        if connection is None:
            return
        connection.flush()
        if not connection.wants_write or connection.lost:
            self._watches_write = False
            self._loop.remove_writer(connection.fd)

    def _on_readable(self) -> None:
        connection = self._connection
        if connection is None:
            return
        for answer in connection.on_readable():
            _HANDLERS[type(answer)](self, answer)
        if connection.lost:
            self._lose()
        self._watch()
        self._agent.heard()

    def _lose(self) -> None:
        """It has died: all that was asked of it is not there."""
        if self._connection is None:
            return
        self.close()
        self._watches_write = False
        self._agent.store_lost()
        sought, self._sought = self._sought, {}
        read, self._read = self._read, {}
        for key, fetched in sought.items():
            self._agent.not_stored(key, fetched)
        for key in read:
            self._agent.stored_view(key, None)

    # ---- answers -------------------------------------------------------------------------------------------------

    def _on_found(self, found: StoreFound) -> None:
        if self._sought.pop(found.key, None) is not None:
            self._agent.stored(found.key)

    def _on_not_found(self, answer: ObjectMissing | StoreRefused) -> None:
        fetched = self._sought.pop(answer.key, None)
        if fetched is not None:
            self._agent.not_stored(answer.key, fetched)
        if self._read.pop(answer.key, False):
            self._agent.stored_view(answer.key, None)

    def _on_view(self, readable: Readable) -> None:
        if self._read.pop(readable.key, False):
            self._agent.stored_view(readable.key, readable.view)

    def _on_status(self, status: StoreStatus) -> None:
        self._agent.store_status(status)


_HANDLERS: dict[type, Callable[[HostStore, Any], None]] = {
    StoreFound: HostStore._on_found,
    ObjectMissing: HostStore._on_not_found,
    StoreRefused: HostStore._on_not_found,
    Readable: HostStore._on_view,
    StoreStatus: HostStore._on_status,
}


def local_host_towards(address: Address) -> str:
    """By which address of its own this host reaches ``address``; empty when that is on this host, or unknown."""
    if address.is_local:
        return ""
    try:
        family, _, _, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return ""
