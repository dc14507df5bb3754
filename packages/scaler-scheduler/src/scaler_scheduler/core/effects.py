"""What the scheduler's core asks of its shell, beside the effects every core has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from scaler_protocol.effects import Log, Send


@dataclass(frozen=True, slots=True)
class Quit:
    """End the process: a shutdown was accepted and told to everyone, or a drain is over."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Encode what monitors are told now, and say ``on_described``: a client asked."""

    client: bytes


@dataclass(frozen=True, slots=True)
class Trouble:
    """Log that something raised ``error``, with its traceback. One peer has paid for it."""

    text: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection of this peer, once what it was sent has left."""

    peer: bytes


Effect = Union[Send, Log, Quit, Describe, Disconnect, Trouble]

__all__ = ["Describe", "Disconnect", "Effect", "Log", "Quit", "Send", "Trouble"]
