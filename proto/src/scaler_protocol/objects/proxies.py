"""Proxies of ``multiprocessing.Manager`` as arguments and results of tasks.

A proxy can be used only with the key of its manager. Processes that multiprocessing starts inherit the key; tasks are
sent it with the proxy, over connections that others cannot read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from scaler_protocol.address import parse_address
from scaler_protocol.keys import keys_directory
from scaler_protocol.objects.reducers import ArrayReducers, Reducer

_PARENT_VARIABLE = "SCALER_PARENT"
_MANAGERS = "multiprocessing.managers"


def is_private(address: str) -> bool:
    """Return whether what is sent by way of a scheduler at ``address`` stays on this machine or is encrypted."""
    parsed = parse_address(address)
    return parsed.is_local or keys_directory() is not None


class ProxyReducers(ArrayReducers):
    """The dispatch table of a pickler that takes proxies, too. ``is_private``: it may write their keys."""

    def __init__(self, table: Mapping[type, Reducer], is_private: bool) -> None:
        super().__init__(table)
        self.is_private = is_private

    def find(self, kind: type) -> Reducer | None:
        managers = sys.modules.get(_MANAGERS)
        if managers is not None and issubclass(kind, managers.BaseProxy):
            return self._reduce_proxy
        return super().find(kind)

    def _reduce_proxy(self, proxy: Any) -> Any:
        if not self.is_private:
            raise TypeError(
                f"Cannot send a {type(proxy).__name__} of a multiprocessing.Manager: its key would be sent unencrypted."
                " Use keys (scaler_keygen), or a scheduler on this machine."
            )
        return reduce_proxy(proxy)


def reduce_proxy(proxy: Any) -> Any:
    """Reduce a proxy as multiprocessing does when it starts a process, key included."""
    from multiprocessing.managers import RebuildProxy  # type: ignore[attr-defined]

    rebuild, arguments = proxy.__reduce__()[:2]
    if rebuild is not RebuildProxy:
        return proxy.__reduce__()
    kind, token, serializer, keywords = arguments
    return rebuild_proxy, (kind, token, serializer, {**keywords, "authkey": bytes(proxy._authkey)})


def rebuild_proxy(kind: Any, token: Any, serializer: str, keywords: dict[str, Any]) -> Any:
    """Rebuild a proxy. In a task, the manager's key becomes that of the process, as in a process that multiprocessing
    has started: proxies that are found in other proxies carry none."""
    from multiprocessing import process
    from multiprocessing.managers import RebuildProxy, RemoteError  # type: ignore[attr-defined]

    if os.environ.get(_PARENT_VARIABLE):
        process.current_process().authkey = keywords["authkey"]
    try:
        return RebuildProxy(kind, token, serializer, keywords)
    except RemoteError as error:
        raise ReferenceError(
            f"The {token.typeid} that a proxy refers to no longer exists. Keep the proxy in the process that sent it"
            " until its tasks have ended."
        ) from error
    except (ConnectionError, FileNotFoundError, EOFError) as error:
        raise ConnectionError(
            f"The manager of a {token.typeid} proxy cannot be reached at {token.address!r}: it has ended, or is on "
            "another machine. A manager with a TCP address can be reached from there."
        ) from error
