"""The host's object store as the client uses it: what goes wrong there is said in the client's own errors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from scaler.shell.residents import Residents
from scaler.utility.exceptions import ObjectStoreError
from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects import host
from scaler_protocol.objects.errors import StoreFull

if TYPE_CHECKING:
    from scaler_protocol.objects.layout import Layout


_AVOID_SECONDS = 60.0
_HAS_STORES = hasattr(os, "memfd_create")


class HostStore(host.HostStore):
    """Raises ObjectStoreError where there is no room. ``residents``: arguments that are there."""

    def __init__(self, cluster: Callable[[], bytes], may_start: bool) -> None:
        super().__init__(cluster, may_start)
        self.residents = Residents()
        self._fetches_from = 0.0

    def put(self, key: ObjectKey, payload: bytes | Layout) -> host.Place | None:
        try:
            return super().put(key, payload)
        except StoreFull as error:
            raise ObjectStoreError(str(error)) from None

    @property
    def can_fetch(self) -> bool:
        """Whether to try ``fetch``: not for a while after that has failed."""
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
