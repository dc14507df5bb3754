"""Events of the whole cluster, for coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.asynchronous.named_value import AsyncNamedValue
from scaler.client.event import Event
from scaler.core.named_calls import CallState
from scaler_protocol.messages import NamedAction

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.named import NamingClient


class AsyncEvent(AsyncNamedValue):
    """An event of the whole cluster, used like ``asyncio.Event``, except that all its methods are awaited. Make it with
    :meth:`AsyncClient.event`. It is the same event as every :class:`~scaler.client.event.Event` of its name."""

    def __init__(self, name: str, client: NamingClient, link: LoopLink) -> None:
        super().__init__(Event(name, client), link)

    async def set(self) -> None:
        """Set the event: calls of ``wait`` return, and return at once, until the event is cleared."""
        await self._call(NamedAction.SET)

    async def clear(self) -> None:
        """Clear the event: later calls of ``wait`` block until it is set again."""
        await self._call(NamedAction.CLEAR)

    async def is_set(self) -> bool:
        return (await self._call(NamedAction.PEEK)).state is CallState.DONE

    async def wait(self) -> bool:
        """Wait until the event is set, and return True. Use ``asyncio.timeout`` to limit the wait."""
        await self._call(NamedAction.READ)
        return True
