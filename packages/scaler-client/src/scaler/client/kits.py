"""What a client works with. A client inside a task leaves it to the next one in its processor: most tasks of tasks are
short, and a session of their own would cost more than their work."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import NamedTuple

from scaler.client.arguments import Arguments
from scaler.client.calls import FunctionBook
from scaler.shell.client_io import ClientIO
from scaler_protocol.messages import TaskName

_LEFT_LIMIT = 4


class Kit(NamedTuple):
    arguments: Arguments
    functions: FunctionBook
    client_io: ClientIO


_left: dict[Hashable, list[Kit]] = {}
"""By the settings of the client that left it."""


def leave(kit: Kit, settings: Hashable) -> bool:
    """False: it cannot be used again, or there are enough."""
    kits = _left.setdefault(settings, [])
    if len(kits) >= _LEFT_LIMIT or not kit.client_io.rest(partial(_forget, kit, settings)):
        return False
    kits.append(kit)
    return True


def _forget(kit: Kit, settings: Hashable) -> None:
    kits = _left.get(settings, [])
    if kit in kits:
        kits.remove(kit)


def take(settings: Hashable, parent: TaskName) -> Kit | None:
    """One that goes on in ``parent``, if there is one."""
    kits = _left.get(settings)
    while kits:
        kit = kits.pop()
        if kit.client_io.resume(parent):
            return kit
    return None
