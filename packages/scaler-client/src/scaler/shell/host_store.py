"""The host's object store as the client uses it: what goes wrong there is said in the client's own errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scaler.shell.residents import Residents
from scaler.utility.exceptions import ObjectStoreError
from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects import host
from scaler_protocol.objects.errors import StoreFull

if TYPE_CHECKING:
    from scaler_protocol.objects.layout import Layout


class HostStore(host.HostStore):
    """Raises ObjectStoreError where there is no room. ``residents``: arguments that are there."""

    def __init__(self, cluster: Callable[[], bytes], may_start: bool) -> None:
        super().__init__(cluster, may_start)
        self.residents = Residents()

    def put(self, key: ObjectKey, payload: bytes | Layout) -> host.Place | None:
        try:
            return super().put(key, payload)
        except StoreFull as error:
            raise ObjectStoreError(str(error)) from None

    def get(self, key: ObjectKey, store: bytes = b"") -> memoryview | None:
        try:
            return super().get(key, store)
        except StoreFull as error:
            raise ObjectStoreError(str(error)) from None
