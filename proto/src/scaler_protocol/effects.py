"""Effects that every core has: actions that it requests from its shell. Plain values, compared with ``==``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.envelope import Send

__all__ = ["Log", "Send"]


@dataclass(slots=True)
class Log:
    """One line for the log; ``level`` as in the standard library, for example ``"INFO"``."""

    level: str
    text: str
