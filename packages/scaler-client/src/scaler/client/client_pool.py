"""The pool of client parts that clients inside tasks return for the next client of their worker process.

Most tasks that tasks submit are short, and opening a session for each client would cost more than their work.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import NamedTuple

from scaler.client.arguments import Arguments
from scaler.client.calls import FunctionBook
from scaler.shell.client_io import ClientIO
from scaler_protocol.messages import TaskName

_POOL_LIMIT = 4


class ClientParts(NamedTuple):
    """The parts of a client."""

    arguments: Arguments
    functions: FunctionBook
    client_io: ClientIO


_pool: dict[Hashable, list[ClientParts]] = {}
"""The sessions by the settings of the client that returned them."""


def give_back(parts: ClientParts, settings: Hashable) -> bool:
    """Put ``parts`` into the pool. Returns False if they cannot be used again, or if the pool is full."""
    pooled = _pool.setdefault(settings, [])
    if len(pooled) >= _POOL_LIMIT or not parts.client_io.rest(partial(_forget, parts, settings)):
        return False
    pooled.append(parts)
    return True


def _forget(parts: ClientParts, settings: Hashable) -> None:
    pooled = _pool.get(settings, [])
    if parts in pooled:
        pooled.remove(parts)


def reuse(settings: Hashable, parent: TaskName) -> ClientParts | None:
    """Take parts from the pool that continue in the task ``parent``. Returns None if there are none."""
    pooled = _pool.get(settings)
    while pooled:
        parts = pooled.pop()
        if parts.client_io.resume(parent):
            return parts
    return None
