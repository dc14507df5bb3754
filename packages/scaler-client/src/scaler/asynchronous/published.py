"""Values that are published for the whole cluster, for coroutines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from scaler.asynchronous.future import AsyncFuture
from scaler.asynchronous.named_value import AsyncNamedValue
from scaler.client.named_value import serialized
from scaler.client.published import PublishedValue, names_in
from scaler_protocol.messages import NamedAction

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.named import NamingClient

_ANY_NAME = "*"  # for requests that ignore the name


class AsyncPublishedValue(AsyncNamedValue):
    """See :class:`~scaler.client.published.PublishedValue`."""

    def __init__(self, name: str, client: NamingClient, link: LoopLink) -> None:
        self._value = PublishedValue(name, client)
        super().__init__(self._value, link)

    async def publish(self, value: Any) -> None:
        """Publish a value. In place of a future, its result is published."""
        result = await value if isinstance(value, AsyncFuture) else value
        self._value.check_published(await self._call(NamedAction.TRY_SET, serialized(self._value, result)))

    async def read(self) -> Any:
        """Raises KeyError if there is no value."""
        return self._value.value_of(await self._call(NamedAction.PEEK))

    async def remove(self) -> None:
        """Raises KeyError if there is no value."""
        self._value.check_removed(await self._call(NamedAction.CLEAR))


async def publish_all_async(client: NamingClient, link: LoopLink, values: dict[str, Any]) -> None:
    """Publish all of them, or none if that fails for one."""
    done: list[AsyncPublishedValue] = []
    try:
        for name, value in values.items():
            each = AsyncPublishedValue(name, client, link)
            await each.publish(value)
            done.append(each)
    except BaseException:
        for each in done:
            with contextlib.suppress(KeyError):
                await each.remove()
        raise


async def published_names_async(client: NamingClient, link: LoopLink) -> list[str]:
    """The names of all published values, sorted."""
    return names_in(await AsyncPublishedValue(_ANY_NAME, client, link)._call(NamedAction.LIST))
