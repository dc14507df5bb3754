"""The effects of the scheduler's core, in addition to those of every core."""

from __future__ import annotations

from typing import Union

from scaler_protocol.effects import Log, Send
from scaler_protocol.value import value


@value(frozen=True, slots=True)
class Quit:
    """End the process: a shutdown was accepted and announced, or running tasks have ended."""


@value(frozen=True, slots=True)
class Describe:
    """Encode the current snapshot for clients, and call ``on_described``."""


@value(frozen=True, slots=True)
class Trouble:
    """Log that ``error`` was raised, with its traceback. One peer has paid for it."""

    text: str
    error: Exception


@value(frozen=True, slots=True)
class Disconnect:
    """Close the connection of this peer once its messages have been sent."""

    peer: bytes


@value(frozen=True, slots=True)
class Audit:
    """Record that a user acted on the cluster. ``host`` and ``pid`` are those of the client; ``names`` and ``tasks``
    are what was concerned."""

    user: str
    host: str
    pid: int
    action: str
    target: str
    value: float
    names: tuple[str, ...]
    tasks: int


Effect = Union[Send, Log, Quit, Describe, Disconnect, Trouble, Audit]

__all__ = ["Audit", "Describe", "Disconnect", "Effect", "Log", "Quit", "Send", "Trouble"]
