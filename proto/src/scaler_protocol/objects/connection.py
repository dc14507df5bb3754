"""A host's store for programs that wait: worker processes and clients."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from scaler_protocol.messages import (
    ObjectKey,
    ObjectMissing,
    StoreAbandon,
    StoreCreate,
    StoreDrop,
    StoreFailure,
    StoreFetch,
    StoreFind,
    StoreForget,
    StoreFound,
    StoreGranted,
    StoreRefused,
    StoreSeal,
    StoreStatus,
    StoreStatusRequest,
)
from scaler_protocol.objects.errors import MissingObject, StoreError, StoreFull, StoreUnavailable, Unreachable
from scaler_protocol.objects.layout import ObjectLayout, Part, parts_of, size_of
from scaler_protocol.objects.link import STATUS_KEY, LinkLost, StoreLink
from scaler_protocol.objects.placing import SMALL_BYTES, Placing, StoredParts, no_memory
from scaler_protocol.objects.starting import reach

_CLOSE_SECONDS = 1.0

_T = TypeVar("_T")


class StoreConnection:
    """Connects when first used, and again when the store has died: ``store`` tells whether it is another one. Several
    threads may use it. A forked child has its own connection; what it inherits stays as it is."""

    def __init__(self, cluster: bytes, may_start: bool) -> None:
        self._cluster = cluster
        self._may_start = may_start
        self._lock = threading.Lock()
        self._link: StoreLink | None = None
        self._closed = False
        self._place_lock = threading.Lock()
        self._placing: Placing | None = None
        _connections.add(self)

    @property
    def store(self) -> bytes:
        """The id of the store that is connected; empty: none is."""
        link = self._link
        return link.store if link is not None and link.is_usable else b""

    def connect(self) -> bytes:
        """Its store's id. Raises StoreUnavailable."""
        return self._connected().store

    def allow_start(self) -> None:
        """Allow a store to be started, because it is useful here from now on."""
        self._may_start = True

    # ---- verbs ---------------------------------------------------------------------------------------------------

    def put(self, key: ObjectKey, data: ObjectLayout | bytes | bytearray | memoryview) -> int:
        """Write and seal an object; returns its size. An object of that key that is sealed already stays as it is.
        Raises StoreFull and StoreUnavailable."""
        return self.put_somewhere(key, data)[0]

    def put_somewhere(
        self, key: ObjectKey, data: ObjectLayout | bytes | bytearray | memoryview, soon: bool = False
    ) -> tuple[int, bytes]:
        """Like ``put``, but also return the id of the store that has the object. ``soon``: others need it only after
        ``flush``, so that the store may hear of many small objects at once."""
        parts = parts_of(data)
        size = size_of(parts)

        def put(link: StoreLink) -> bytes:
            if size >= SMALL_BYTES or self._place(link, [(key, parts)]):
                self._create(link, key, size, parts)
            elif not soon:
                link.flush()
            return link.store

        return size, self._again(put)

    def put_all(self, objects: Sequence[StoredParts]) -> bytes:
        """Put objects below ``SMALL_BYTES`` ``soon``, each with its parts; returns the id of their store. Raises
        StoreFull and StoreUnavailable."""

        def put(link: StoreLink) -> bytes:
            for key, parts in self._place(link, objects):
                self._create(link, key, size_of(parts), parts)
            return link.store

        return self._again(put)

    def flush(self) -> None:
        """Tell the store of objects that were put ``soon``. Raises StoreUnavailable."""
        link = self._link
        if link is not None and link.is_usable:
            link.flush()

    def get(self, key: ObjectKey, timeout: float | None = None) -> memoryview:
        """The object's bytes, writable: other processes do not see the changes. Waits while the object is written.
        Raises MissingObject, StoreFull (it was on disk), TimeoutError and StoreUnavailable."""

        def get(link: StoreLink) -> memoryview:
            copied = link.copy_published(key)
            if copied is not None:
                return copied
            return link.read(_checked(link.ask_for(key, timeout)))

        return self._again(get)

    def contains(self, key: ObjectKey, timeout: float | None = None) -> int | None:
        """The object's size; None: it is not here. Waits while the object is written."""
        answer = self._again(lambda link: link.ask(key, StoreFind(key), timeout))
        return answer.size if isinstance(answer, StoreFound) else None

    def drop(self, keys: Sequence[ObjectKey]) -> None:
        """Drop objects that are no longer needed. Existing mappings stay valid."""
        for start in range(0, len(keys), 1000):
            part = tuple(keys[start : start + 1000])
            self._again(lambda link, part=part: link.drop(StoreDrop(part)))  # type: ignore[misc]

    def forget(self, owner: bytes) -> None:
        """Drop all objects of this owner."""
        self._again(lambda link: link.drop(StoreForget(owner)))

    def fetch(self, key: ObjectKey, size: int, sources: Sequence[str], timeout: float | None = None) -> None:
        """Have the store get the object from others, whose endpoints are ``sources``. Raises Unreachable, StoreFull,
        TimeoutError and StoreUnavailable."""
        request = StoreFetch(key, size, tuple(sources))
        _checked(self._again(lambda link: link.ask(key, request, timeout)))

    def status(self, timeout: float | None = None) -> StoreStatus:
        status: StoreStatus = self._again(lambda link: link.ask(STATUS_KEY, StoreStatusRequest(), timeout))
        return status

    def unmap_unused(self) -> None:
        """Mappings that are kept for objects to come, which makes reading those faster."""
        link = self._link
        if link is not None:
            link.segments.unmap_unused()

    def close(self) -> None:
        """May be called twice. Existing mappings stay valid."""
        self._closed = True
        if self._lock.acquire(timeout=_CLOSE_SECONDS):  # held while a store is reached, which may take long
            try:
                self._replace(None)
            finally:
                self._lock.release()

    # ---- writing -------------------------------------------------------------------------------------------------

    def _create(self, link: StoreLink, key: ObjectKey, size: int, parts: Sequence[Part]) -> None:
        granted: StoreGranted = _checked(link.ask(key, StoreCreate(key, size)))
        if granted.sealed:
            return
        try:
            link.write(granted, granted.offset, parts)
        except OSError as error:
            link.tell(StoreAbandon(key))
            raise StoreFull(no_memory(size, error)) from None
        link.tell(StoreSeal(key))

    def _place(self, link: StoreLink, objects: Sequence[StoredParts]) -> list[StoredParts]:
        """Return those for which no region has room."""
        with self._place_lock:
            if self._placing is None or self._placing.link is not link:
                self._placing = Placing(link)
            return self._placing.place(objects)

    # ---- the connection ------------------------------------------------------------------------------------------

    def _again(self, work: Callable[[StoreLink], _T]) -> _T:
        """Once more when the store has died meanwhile, with the next one. Whatever else interrupts leaves requests
        without a taker, so the connection is not used again; what is mapped through it stays."""
        for attempt in (1, 2):
            link = self._connected()
            try:
                return work(link)
            except LinkLost:
                if attempt == 2 or self._closed:
                    raise
            except (StoreError, TimeoutError, ValueError, TypeError):
                raise
            except BaseException:
                link.spoil()
                raise
        raise AssertionError

    def _connected(self) -> StoreLink:
        link = self._link
        if link is not None and link.is_usable:
            return link
        with self._lock:
            if not self._closed and (self._link is None or not self._link.is_usable):
                self._replace(StoreLink(reach(self._cluster, self._may_start)))
            if self._closed:
                self._replace(None)
            if self._link is None:
                raise StoreUnavailable("This connection to the object store is closed.")
            return self._link

    def _replace(self, new: StoreLink | None) -> None:
        """The old connection ends after the new one was made: a store that has no peer ends."""
        old, self._link = self._link, new
        if old is not None:
            old.close()

    # ---- forks ---------------------------------------------------------------------------------------------------

    def _after_fork_in_parent(self) -> None:
        if self._link is not None:
            self._link.after_fork()

    def _after_fork_in_child(self) -> None:
        """It shares nothing but what is mapped."""
        self._lock = threading.Lock()
        self._place_lock = threading.Lock()
        link, self._link = self._link, None
        if link is not None:
            link.close(is_inherited=True)


def _checked(answer: Any) -> Any:
    """The answer, or what it says has gone wrong."""
    if isinstance(answer, ObjectMissing):
        raise MissingObject(answer.text)
    if isinstance(answer, StoreRefused):
        raise Unreachable(answer.text) if answer.failure == StoreFailure.UNREACHABLE else StoreFull(answer.text)
    return answer


_connections: weakref.WeakSet[StoreConnection] = weakref.WeakSet()


def _in_parent() -> None:
    for connection in list(_connections):
        connection._after_fork_in_parent()


def _in_child() -> None:
    for connection in list(_connections):
        connection._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_in_parent, after_in_child=_in_child)
