"""Semaphores of the whole cluster."""

from __future__ import annotations

import operator
from typing import Any

from scaler.client.named import NamingClient
from scaler.client.permit import NamedPermit
from scaler.core.coordination import Permit
from scaler_protocol.messages import SEMAPHORE_LIMIT, CoordinationKind


class Semaphore(NamedPermit):
    """A semaphore of the whole cluster, used like ``threading.Semaphore``. Make it with :meth:`Client.semaphore`.

    Semaphores of one name have at most ``limit`` holders at a time, wherever they are used: in this application, in
    others and in tasks. They are granted in the order of the requests. Only an object that has acquired a semaphore can
    release it. A semaphore is released when its task or its client ends, too. A task that waits for one lends its
    worker to other tasks."""

    noun = "semaphore"

    def __init__(self, name: str, limit: int, client: NamingClient | None = None) -> None:
        """If ``client`` is None, the semaphore uses the client of the task that uses it."""
        super().__init__(Permit(CoordinationKind.SEMAPHORE, name, _checked(limit)), client)

    @property
    def limit(self) -> int:
        """The maximum number of holders at a time."""
        return self._permit.limit

    def __reduce__(self) -> tuple[Any, ...]:
        return Semaphore, (self.name, self.limit, self._client)

    def __dask_tokenize__(self) -> tuple[str, str, int]:
        return "scaler.Semaphore", self.name, self.limit

    def __repr__(self) -> str:
        return f"Semaphore({self.name!r}, {self.limit})"


def _checked(limit: int) -> int:
    """Raises TypeError or ValueError if there cannot be so many holders."""
    number = operator.index(limit)
    if not 1 <= number <= SEMAPHORE_LIMIT:
        raise ValueError(f"The limit of a semaphore is 1 to {SEMAPHORE_LIMIT}, not {number}.")
    return number
