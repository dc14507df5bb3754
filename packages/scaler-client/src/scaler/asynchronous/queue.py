"""Queues of the whole cluster, for coroutines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from scaler.asynchronous.named_value import AsyncNamedValue
from scaler.client.named_value import loaded, serialized
from scaler.client.queue import Queue
from scaler.core.named_calls import CallState
from scaler_protocol.messages import NamedAction

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.named import NamingClient


class AsyncQueue(AsyncNamedValue):
    """A queue of the whole cluster, used like ``asyncio.Queue``, except that all its methods are awaited. Make it with
    :meth:`AsyncClient.queue`. It is the same queue as every :class:`~scaler.client.queue.Queue` of its name."""

    def __init__(self, name: str, maximum_size: int, client: NamingClient, link: LoopLink) -> None:
        super().__init__(Queue(name, maximum_size, client), link)

    @property
    def maximum_size(self) -> int:
        """The maximum number of items; 0 means no limit."""
        return self._shared.limit

    async def put(self, item: Any) -> None:
        """Append an item; wait until there is room. Use ``asyncio.timeout`` to limit the wait. If it is cancelled, the
        item may have been put."""
        await self._call(NamedAction.PUT, serialized(self._shared, item))

    async def get(self) -> Any:
        """Remove and return the first item; wait until there is one. Use ``asyncio.timeout`` to limit the wait. If it
        is cancelled, the item stays the first one."""
        return loaded(self._shared, await self._call(NamedAction.TAKE))

    async def put_nowait(self, item: Any) -> None:
        """Append an item, or raise ``asyncio.QueueFull``."""
        call = await self._call(NamedAction.TRY_PUT, serialized(self._shared, item))
        if call.state is not CallState.DONE:
            raise asyncio.QueueFull

    async def get_nowait(self) -> Any:
        """Remove and return the first item, or raise ``asyncio.QueueEmpty``."""
        call = await self._call(NamedAction.TRY_TAKE)
        if call.state is not CallState.DONE:
            raise asyncio.QueueEmpty
        return loaded(self._shared, call)

    async def qsize(self) -> int:
        """The number of items."""
        return (await self._call(NamedAction.COUNT)).count

    async def empty(self) -> bool:
        return not await self.qsize()

    async def full(self) -> bool:
        return 0 < self.maximum_size <= await self.qsize()
