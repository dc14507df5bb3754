"""Semaphores of the whole cluster, for coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.asynchronous.permit import AsyncPermit
from scaler.client.semaphore import Semaphore

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.named import NamingClient


class AsyncSemaphore(AsyncPermit):
    """A semaphore of the whole cluster, used like ``asyncio.Semaphore``, except that ``release`` and ``locked`` are
    awaited. Make it with :meth:`AsyncClient.semaphore`. It counts every
    :class:`~scaler.client.semaphore.Semaphore` of its name, too."""

    def __init__(self, name: str, limit: int, client: NamingClient, link: LoopLink) -> None:
        super().__init__(Semaphore(name, limit, client), link)
