"""Effects that every core has: what it wants its shell to do. Plain values, compared with ``==``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.messages import Envelope


@dataclass(slots=True)
class Send:
    """Send ``envelope`` to ``peer``. If the transport cannot take it, drop it: the link replays it."""

    peer: bytes
    envelope: Envelope


@dataclass(slots=True)
class Log:
    """One line for the log; ``level`` as in the standard library, for example ``"INFO"``."""

    level: str
    text: str
