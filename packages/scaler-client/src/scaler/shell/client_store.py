"""The host's object store as the client uses it, and the large arguments that the client has put there."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from scaler.core.uploads import Upload
from scaler.utility.exceptions import ObjectStoreError
from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects import host
from scaler_protocol.objects.comparison import same
from scaler_protocol.objects.errors import StoreFull
from scaler_protocol.objects.layout import ObjectLayout

if TYPE_CHECKING:
    from scaler_protocol.objects.push import Pusher

COMPARED_FROM_BYTES = 1024 * 1024
"""Smaller arguments are not worth a comparison."""

PUSH_BYTES = 1024 * 1024
"""Smaller arguments go through the scheduler, because asking where they are needed takes as long."""

_logger = logging.getLogger("scaler")
_SAMPLES = 16
_SAMPLE_BYTES = 64
_AVOID_SECONDS = 60.0
_HAS_STORES = hasattr(os, "memfd_create")


class Residents:
    """Finds arguments that are in the store already, so that the same argument is not stored again. A few samples of
    the bytes find a candidate; then all bytes are compared, which costs less than a digest."""

    def __init__(self) -> None:
        self._by_samples: WeakValueDictionary[bytes, Upload] = WeakValueDictionary()

    def find(self, payload: bytes | ObjectLayout) -> Upload | None:
        """An upload that may have the same bytes."""
        return self._by_samples.get(_samples(payload)) if len(payload) >= COMPARED_FROM_BYTES else None

    def add(self, payload: bytes | ObjectLayout, upload: Upload) -> None:
        if len(payload) >= COMPARED_FROM_BYTES and upload.stored is not None:
            self._by_samples[_samples(payload)] = upload


def is_same(upload: Upload, payload: bytes | ObjectLayout) -> bool:
    """Return whether ``payload`` has the bytes of ``upload``. The caller holds a use of the upload."""
    content = upload.content()
    if content is None or upload.size != len(payload):
        return False
    view = memoryview(content)
    return all(same(view[offset : offset + len(part)], part) for offset, part in _parts(payload))


def _parts(payload: bytes | ObjectLayout) -> list[tuple[int, memoryview]]:
    return [(0, memoryview(payload))] if isinstance(payload, bytes) else payload.parts()


def _samples(payload: bytes | ObjectLayout) -> bytes:
    digest = blake2b(len(payload).to_bytes(8, "little"), digest_size=16)
    for _, part in _parts(payload):
        step = max(_SAMPLE_BYTES, len(part) // _SAMPLES)
        for start in range(0, len(part), step):
            digest.update(part[start : start + _SAMPLE_BYTES])
    return digest.digest()


class ClientStore(host.HostStore):
    """Reports a full store as ObjectStoreError. ``residents`` has the large arguments that are in the store."""

    def __init__(self, cluster: Callable[[], bytes], may_start: bool) -> None:
        super().__init__(cluster, may_start)
        self.residents = Residents()
        self._fetches_from = 0.0
        self._pushes_from = 0.0
        self._is_remote = not may_start
        self._pushers: dict[str, Pusher] = {}
        self._has_warned = False

    def put(self, key: ObjectKey, payload: bytes | ObjectLayout, soon: bool = False) -> host.StoredLocation | None:
        try:
            return super().put(key, payload, soon)
        except StoreFull as error:
            raise ObjectStoreError(str(error)) from None

    def put_all(self, keys: Sequence[ObjectKey], payloads: Sequence[bytes | ObjectLayout]) -> bytes | None:
        try:
            return super().put_all(keys, payloads)
        except StoreFull as error:
            raise ObjectStoreError(str(error)) from None

    @property
    def can_push(self) -> bool:
        """Whether to keep objects here and to push them to the stores of workers. After a failure, objects go through
        the scheduler for a minute."""
        return self._is_remote and time.monotonic() >= self._pushes_from

    def push(
        self, key: ObjectKey, data: bytes | memoryview, endpoint: str, failed: Callable[[ObjectKey], object]
    ) -> None:
        """Send an object to the store at ``endpoint``, in another thread; ``failed`` is called there."""

        def on_failed(key: ObjectKey, why: str) -> None:
            self._on_push_failed(endpoint, why)
            failed(key)

        pusher = self._pushers.get(endpoint)
        if pusher is None:
            from scaler_protocol.objects.push import Pusher  # most clients push nothing

            pusher = self._pushers.setdefault(endpoint, Pusher(endpoint, on_failed))
        pusher.add(key, memoryview(data))

    def _on_push_failed(self, endpoint: str, why: str) -> None:
        self._pushes_from = time.monotonic() + _AVOID_SECONDS
        if not self._has_warned:
            self._has_warned = True
            place = endpoint.partition("#")[0]
            _logger.warning(
                f"Cannot send large arguments to the object store at {place}: {why}. They go through the"
                " scheduler, which is slower. Let this host connect to all ports of the workers' hosts, and restart"
                " workers whose keys were removed."
            )

    def drop(self, keys: Sequence[ObjectKey]) -> None:
        super().drop(keys)
        for pusher in list(self._pushers.values()):
            pusher.drop(keys)

    def close(self) -> None:
        super().close()
        for pusher in self._pushers.values():
            pusher.close()

    @property
    def can_fetch(self) -> bool:
        """Whether to try ``fetch``. After a failure it is not tried for a minute."""
        return _HAS_STORES and bool(self._cluster()) and time.monotonic() >= self._fetches_from

    def fetch(self, key: ObjectKey, size: int, sources: Sequence[str], timeout: float | None) -> memoryview | None:
        view = super().fetch(key, size, sources, timeout)
        if view is None:
            self._fetches_from = time.monotonic() + _AVOID_SECONDS
        return view

    def get(self, key: ObjectKey, store: bytes = b"") -> memoryview | None:
        try:
            return super().get(key, store)
        except StoreFull as error:
            raise ObjectStoreError(str(error)) from None
