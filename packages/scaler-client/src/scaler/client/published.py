"""Values that are published for the whole cluster."""

from __future__ import annotations

import contextlib
from typing import Any

from scaler.client.future import ScalerFuture
from scaler.client.named import NamingClient
from scaler.client.named_value import NamedValue, loaded, serialized
from scaler.core.named_calls import CallState, NamedCall
from scaler_protocol.messages import CoordinationKind, NamedAction

_ANY_NAME = "*"  # for requests that ignore the name


class PublishedValue(NamedValue):
    """A published value, or the name of one that may be published."""

    noun = "published value"
    kind = CoordinationKind.PUBLISHED

    def publish(self, value: Any) -> None:
        """Raises ValueError if there is a value already, or if this one is too large. In place of a future, its result
        is published."""
        result = value.result() if isinstance(value, ScalerFuture) else value
        self.check_published(self._call(NamedAction.TRY_SET, serialized(self, result)))

    def read(self) -> Any:
        """Raises KeyError if there is no value."""
        return self.value_of(self._call(NamedAction.PEEK))

    def remove(self) -> None:
        """Raises KeyError if there is no value."""
        self.check_removed(self._call(NamedAction.CLEAR))

    # ---- outcomes, also for coroutines -------------------------------------------------------------------------------

    def check_published(self, call: NamedCall) -> None:
        if call.state is not CallState.DONE:
            raise ValueError(f"Cannot publish {self.name!r}: another value has this name. Unpublish it first.")

    def value_of(self, call: NamedCall) -> Any:
        if call.state is not CallState.DONE:
            raise KeyError(self.name)
        return loaded(self, call)

    def check_removed(self, call: NamedCall) -> None:
        if not call.count:
            raise KeyError(self.name)


def publish_all(client: NamingClient, values: dict[str, Any]) -> None:
    """Publish all of them, or none if that fails for one."""
    done: list[PublishedValue] = []
    try:
        for name, value in values.items():
            each = PublishedValue(name, client)
            each.publish(value)
            done.append(each)
    except BaseException:
        for each in done:
            with contextlib.suppress(KeyError):
                each.remove()
        raise


def published_names(client: NamingClient) -> list[str]:
    """The names of all published values, sorted."""
    return names_in(PublishedValue(_ANY_NAME, client)._call(NamedAction.LIST))


def names_in(call: NamedCall) -> list[str]:
    """The names in the answer to a LIST, sorted."""
    return sorted(call.result.decode().split("\0")) if call.result else []
