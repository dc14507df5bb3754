"""Variables of the whole cluster, for coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaler.asynchronous.named_value import AsyncNamedValue
from scaler.client.named_value import loaded, serialized
from scaler.client.variable import Variable
from scaler_protocol.messages import NamedAction

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.named import NamingClient


class AsyncVariable(AsyncNamedValue):
    """A variable of the whole cluster, whose methods are awaited. Make it with :meth:`AsyncClient.variable`. It is the
    same variable as every :class:`~scaler.client.variable.Variable` of its name."""

    def __init__(self, name: str, client: NamingClient, link: LoopLink) -> None:
        super().__init__(Variable(name, client), link)

    async def get(self) -> Any:
        """Return the value; wait until there is one. Use ``asyncio.timeout`` to limit the wait."""
        return loaded(self._shared, await self._call(NamedAction.READ))

    async def set(self, value: Any) -> None:
        """Replace the value. Raises ValueError if it is too large."""
        await self._call(NamedAction.SET, serialized(self._shared, value))

    async def delete(self) -> None:
        """Remove the value. ``get`` then waits until a value is set."""
        await self._call(NamedAction.CLEAR)
