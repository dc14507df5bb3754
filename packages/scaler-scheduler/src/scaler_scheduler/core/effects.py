"""What the scheduler's core asks of its shell, beside the effects every core has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from scaler_protocol.effects import ClosePeer, Log, Send


@dataclass(frozen=True, slots=True)
class Quit:
    """End the process: a shutdown was accepted and told to everyone, or a drain is over."""


Effect = Union[Send, ClosePeer, Log, Quit]

__all__ = ["ClosePeer", "Effect", "Log", "Quit", "Send"]
