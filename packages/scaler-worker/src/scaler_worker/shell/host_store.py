"""The agent's connection to the object store of its host."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from scaler_protocol.address import Address
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.threads import start_thread
from scaler_protocol.messages import (
    LogLines,
    ObjectKey,
    ObjectMissing,
    StoreFound,
    StoreRefused,
    StoreSettings,
    StoreStatus,
)
from scaler_protocol.objects.agent_connection import AgentAnswer, AgentConnection, Readable
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.silence import PERIOD_SECONDS

Use = Callable[[AgentConnection | None], None]
"""Does something with the connection; None: there is no store."""


class StoreEvents(Protocol):
    """Answers of the host's store."""

    def store_status(self, status: StoreStatus) -> None: ...
    def store_lost(self) -> None:
        """The connection to the store is gone, and with it everything that was in the store."""

    def stored(self, key: ObjectKey) -> None:
        """The store has this object."""

    def not_stored(self, key: ObjectKey, relayed: bool) -> None:
        """It does not; ``relayed``: nor could it fetch the object from other stores."""

    def stored_view(self, key: ObjectKey, view: memoryview | None) -> None:
        """The bytes that were requested; None: the store does not have them."""


class AgentHostStore:
    """Connects at the first request, in a thread because that may take long."""

    def __init__(self, loop: GuardedLoop, agent: StoreEvents, settings: StoreSettings) -> None:
        self._loop = loop
        self._agent = agent
        self._settings = settings
        self._cluster = b""
        self._connection: AgentConnection | None = None
        self._obstacle = ""  # why there was no store, as the log says
        self._attempt: object | None = None  # to connect, under way
        self._uses: list[tuple[Use, bool]] = []  # that wait for the connection, and whether they need a store
        self._watches_write = False
        self._closed = False
        self._sought: dict[ObjectKey, bool] = {}  # True: fetched from other stores
        self._read: dict[ObjectKey, bool] = {}

    def join(self, cluster: bytes) -> None:
        """The name of the cluster; perhaps another one. Where there may be other hosts, the store is started now: by it
        clients here know that it is of use, and other stores reach it."""
        if cluster != self._cluster:
            self._cluster = cluster
            self._attempt = None
            self._lose()
            self._use(None, True)
            self._be_reachable()

    def attach(self) -> None:
        """Something is there: this host's store must be connected."""
        if (self._attached, False) not in self._uses:
            self._when_connected(self._attached, False)

    def find(self, keys: Sequence[ObjectKey]) -> None:
        self._when_connected(partial(self._find, keys), False)

    def fetch(self, key: ObjectKey, size: int, sources: Sequence[str]) -> None:
        self._when_connected(partial(self._fetch, key, size, sources), True)

    def read(self, key: ObjectKey) -> None:
        self._when_connected(partial(self._begin_read, key), False)

    def drop(self, keys: Sequence[ObjectKey]) -> None:
        if self._connection is not None or self._attempt is not None:
            self._when_connected(partial(self._drop, keys), False)

    def forget(self, owner: bytes) -> None:
        """Have the store drop all objects of this owner, also if the connection to it has ended."""
        self._when_connected(partial(self._forget, owner), False)

    def ask_status(self) -> None:
        """Ask for the status, so that the agent is told of it."""
        if self._connection is not None:
            self._connection.ask_status()
            self._watch()
        self._be_reachable()

    def close(self) -> None:
        self._closed = True
        self._disconnect()

    # ---- what is asked of it ---------------------------------------------------------------------------------------

    def _attached(self, connection: AgentConnection | None) -> None:
        if connection is None:
            self._agent.store_lost()

    def _find(self, keys: Sequence[ObjectKey], connection: AgentConnection | None) -> None:
        for key in keys:
            if connection is None:
                self._agent.not_stored(key, False)
            elif connection.knows(key):
                self._agent.stored(key)
            else:
                self._sought[key] = False
                connection.find(key)

    def _fetch(self, key: ObjectKey, size: int, sources: Sequence[str], connection: AgentConnection | None) -> None:
        if connection is None:
            self._agent.not_stored(key, True)
        else:
            self._sought[key] = True
            connection.fetch(key, size, sources)

    def _begin_read(self, key: ObjectKey, connection: AgentConnection | None) -> None:
        if connection is None:
            self._agent.stored_view(key, None)
        else:
            self._read[key] = True
            connection.read(key)

    def _drop(self, keys: Sequence[ObjectKey], connection: AgentConnection | None) -> None:
        if connection is not None:
            connection.drop(keys)

    def _forget(self, owner: bytes, connection: AgentConnection | None) -> None:
        if connection is not None:
            connection.forget(owner)

    # ---- the connection ------------------------------------------------------------------------------------------

    def _when_connected(self, use: Use, may_start: bool) -> None:
        if self._connection is not None:
            use(self._connection)
            self._watch()
            return
        self._uses.append((use, may_start))
        if self._attempt is None:
            self._connect(may_start)

    def _connect(self, may_start: bool) -> None:
        if not self._cluster:
            self._use(None, True)
            return
        self._attempt = attempt = object()
        try:
            start_thread(partial(self._open, attempt, self._cluster, may_start))
        except RuntimeError:  # the system allows no more threads
            self._loop.call_soon(self._opened, attempt, True, None)

    def _open(self, attempt: object, cluster: bytes, may_start: bool) -> None:
        """Open the store, in a thread."""
        connection = None
        try:
            connection = AgentConnection.open(cluster, self._settings, may_start)
        except StoreUnavailable as error:
            self._note_obstacle(str(error), may_start)
        except Exception as error:
            logging.warning(f"Cannot reach the object store of this host: {error}")
        finally:
            try:
                self._loop.call_soon_threadsafe(self._opened, attempt, may_start, connection)
            except RuntimeError:  # the loop has ended
                if connection is not None:
                    connection.close()

    def _note_obstacle(self, text: str, may_start: bool) -> None:
        """Log this once, unless this host is not meant to have a store."""
        if may_start and text != self._obstacle:
            logging.warning(f"This host has no object store, so its large values go through the scheduler. {text}")
            self._obstacle = text

    def _opened(self, attempt: object, may_start: bool, connection: AgentConnection | None) -> None:
        if attempt is not self._attempt or self._closed:
            if connection is not None:
                connection.close()
            return
        self._attempt = None
        if connection is not None:
            self._connection = connection
            self._loop.add_reader(connection.fd, self._on_readable)
            self._loop.call_later(PERIOD_SECONDS, self._on_period, connection)
            connection.ask_status()
        self._use(connection, may_start)
        self._watch()

    def _use(self, connection: AgentConnection | None, may_start: bool) -> None:
        """Use the store. Processes that need one get it, if none was found before."""
        uses, self._uses = self._uses, []
        for use, needs_store in uses:
            if connection is None and needs_store and not may_start:
                self._uses.append((use, needs_store))
            else:
                use(connection)
        if self._uses:
            self._connect(True)

    def _be_reachable(self) -> None:
        if self._cluster and self._settings.host and self._connection is None and self._attempt is None:
            self._connect(True)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._loop.remove_reader(connection.fd)
            self._loop.remove_writer(connection.fd)
            self._watches_write = False
            connection.close()

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
        if connection is not None:
            self._take(connection, connection.on_readable())

    def _on_period(self, connection: AgentConnection) -> None:
        if connection is self._connection:
            self._loop.call_later(PERIOD_SECONDS, self._on_period, connection)
            self._take(connection, connection.on_period())

    def _take(self, connection: AgentConnection, answers: Sequence[AgentAnswer]) -> None:
        for answer in answers:
            _HANDLERS[type(answer)](self, answer)
        if connection.lost:
            logging.warning(connection.why_lost)
            self._lose()
        self._watch()

    def _lose(self) -> None:
        """It has died: all that was asked of it is not there."""
        if self._connection is None:
            return
        self._disconnect()
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

    def _on_log(self, log: LogLines) -> None:
        """The store has no log of its own: its lines become lines of the agent's log."""
        for line in log.lines:
            logging.log(line.level, f"Object store: {line.text}")

    def _on_status(self, status: StoreStatus) -> None:
        self._agent.store_status(status)


_HANDLERS: dict[type, Callable[[AgentHostStore, Any], None]] = {
    StoreFound: AgentHostStore._on_found,
    ObjectMissing: AgentHostStore._on_not_found,
    StoreRefused: AgentHostStore._on_not_found,
    Readable: AgentHostStore._on_view,
    StoreStatus: AgentHostStore._on_status,
    LogLines: AgentHostStore._on_log,
}


def local_host_towards(address: Address) -> str:
    """Return the own address by which this host reaches ``address``; empty if that is on this host, or unknown."""
    if address.is_local:
        return ""
    try:
        family, _, _, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return ""
