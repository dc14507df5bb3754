"""Locks of the whole cluster, for coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.asynchronous.permit import AsyncPermit
from scaler.client.lock import Lock

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.named import NamingClient


class AsyncLock(AsyncPermit):
    """A lock of the whole cluster, used like ``asyncio.Lock``, except that ``release`` and ``locked`` are awaited. Make
    it with :meth:`AsyncClient.lock`. It excludes every :class:`~scaler.client.lock.Lock` of its name, too."""

    def __init__(self, name: str, client: NamingClient, link: LoopLink) -> None:
        super().__init__(Lock(name, client), link)
