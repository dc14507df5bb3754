"""Locks that exclude one another in the whole cluster."""

from __future__ import annotations

from typing import Any

from scaler.client.named import NamingClient
from scaler.client.permit import NamedPermit
from scaler.core.coordination import Permit
from scaler_protocol.messages import CoordinationKind


class Lock(NamedPermit):
    """A lock of the whole cluster, used like ``threading.Lock``. Make it with :meth:`Client.lock`.

    Locks of one name exclude one another wherever they are used: in this application, in others and in tasks. They are
    granted in the order of the requests. A lock is released by the object that acquired it, or when its task or its
    client ends. A task that receives a copy of a lock uses it by itself. A task that waits for a lock lends its worker
    to other tasks."""

    noun = "lock"

    def __init__(self, name: str, client: NamingClient | None = None) -> None:
        """If ``client`` is None, the lock uses the client of the task that uses it."""
        super().__init__(Permit(CoordinationKind.LOCK, name), client)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, (self.name, self._client)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "scaler.Lock", self.name

    def __repr__(self) -> str:
        return f"Lock({self.name!r})"
