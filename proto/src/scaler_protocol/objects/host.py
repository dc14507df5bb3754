"""The object store of this host, for those that put objects there and map them: clients and worker processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from scaler_protocol.command.descriptors import require_descriptors
from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.errors import MissingObject, StoreError, StoreUnavailable
from scaler_protocol.objects.layout import parts_of

if TYPE_CHECKING:
    from scaler_protocol.objects.connection import StoreConnection
    from scaler_protocol.objects.layout import ObjectLayout


_DESCRIPTORS_NEEDED = 8


class StoredLocation(NamedTuple):
    """The location of an object: its size, and the 16 bytes that name a store."""

    size: int
    store: bytes


class HostStore:
    """``cluster`` gives the name of the cluster, empty while it is not known; ``may_start``: to start a store here is
    of use. Where there is none ``put`` and ``get`` give None. Several threads may use it."""

    def __init__(self, cluster: Callable[[], bytes], may_start: bool) -> None:
        self._cluster = cluster
        self._may_start = may_start
        self._lock = threading.Lock()
        self._writer: StoreConnection | None = None
        self._is_for_fetches = False

    def put(self, key: ObjectKey, payload: bytes | ObjectLayout, soon: bool = False) -> StoredLocation | None:
        """``soon``: others need the object only after ``flush``. Raises StoreFull."""
        connection = self._connection()
        if connection is None or self._is_for_fetches:
            return None
        try:
            return StoredLocation(*connection.put_somewhere(key, payload, soon))
        except StoreUnavailable:
            return None

    def put_all(self, keys: Sequence[ObjectKey], payloads: Sequence[bytes | ObjectLayout]) -> bytes | None:
        """Like ``put`` ``soon``, for many small objects; returns the id of their store. Raises StoreFull."""
        connection = self._connection()
        if connection is None or self._is_for_fetches:
            return None
        try:
            return connection.put_all([(key, parts_of(data)) for key, data in zip(keys, payloads, strict=True)])
        except StoreUnavailable:
            return None

    def flush(self) -> None:
        """Let others find the objects that were put ``soon``."""
        if self._writer is not None:
            try:
                self._writer.flush()
            except StoreUnavailable:
                pass  # it has died, and with it what it held

    def get(self, key: ObjectKey, store: bytes = b"") -> memoryview | None:
        """The object, for this caller alone to change, if it is here; with ``store``: if it is in that one. Raises
        StoreFull when there is no room for it, since it went to disk."""
        connection = self._connection()
        if connection is None:
            return None
        try:
            if store and connection.connect() != store:
                return None
            return connection.get(key)
        except (MissingObject, StoreUnavailable):
            return None

    def require(self, key: ObjectKey) -> memoryview:
        """Like ``get``, but raise MissingObject with the reason if the object is not here."""
        connection = self._connection()
        if connection is None:
            raise MissingObject("This host has no object store.")
        try:
            return connection.get(key)
        except StoreUnavailable as error:
            raise MissingObject(str(error)) from None

    def fetch(self, key: ObjectKey, size: int, sources: Sequence[str], timeout: float | None) -> memoryview | None:
        """An object of other hosts' stores, by way of this host's, which is started for it. Raises TimeoutError."""
        connection = self._connection()
        if connection is None:
            return None
        try:
            self._connect_to_fetch(connection)
            connection.fetch(key, size, sources, timeout)
            view = connection.get(key, timeout)
            connection.drop([key])
            return view
        except StoreError:
            return None

    def _connect_to_fetch(self, connection: StoreConnection) -> None:
        """A store that is started for it has no agent, and so is not the place for what others need."""
        if self._may_start or connection.store:
            return
        try:
            connection.connect()
        except StoreUnavailable:
            self._is_for_fetches = True
            connection.allow_start()

    def drop(self, keys: Sequence[ObjectKey]) -> None:
        """Drop objects that are no longer needed."""
        if self._writer is not None and self._writer.store:
            try:
                self._writer.drop(keys)
            except StoreUnavailable:
                pass

    def unmap_unused(self) -> None:
        """Unmap segments that are kept mapped for later objects."""
        if self._writer is not None:
            self._writer.unmap_unused()

    def close(self) -> None:
        """Close the connection; mapped memory stays."""
        if self._writer is not None:
            self._writer.close()

    def _connection(self) -> StoreConnection | None:
        if self._writer is None and self._cluster():
            if not _has_descriptors():
                return None
            from scaler_protocol.objects.connection import StoreConnection  # most processes have nothing large

            with self._lock:
                self._writer = self._writer or StoreConnection(self._cluster(), self._may_start)
        return self._writer


def _has_descriptors() -> bool:
    """Return whether this process may open what the connection needs, and the modules for it."""
    try:
        require_descriptors(_DESCRIPTORS_NEEDED, "connect to the object store of this host")
    except OSError:
        return False
    return True
