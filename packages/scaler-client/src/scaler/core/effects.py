"""What the session wants its shell to do, beside sending."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.core.outcome import Outcome, Sink
from scaler_protocol.effects import Log, Send
from scaler_protocol.messages import ObjectKey

__all__ = ["DropStoredObjects", "Effect", "Finish", "IssueWarnings", "Log", "ReplaceConnection", "Send", "WriteOutput"]


@dataclass(slots=True)
class Finish:
    """Tell ``sink``, for which somebody waits, how it ended. Done without the lock: callbacks run."""

    sink: Sink
    outcome: Outcome


@dataclass(slots=True)
class WriteOutput:
    """Write what a task printed: stream 1 is stdout, 2 stderr."""

    stream: int
    data: bytes


@dataclass(slots=True)
class IssueWarnings:
    """Issue what a task has warned of: the pickle of a list of (pickled category, message, file, line, module)."""

    data: bytes


@dataclass(slots=True)
class DropStoredObjects:
    """This host's store need not keep them."""

    keys: list[ObjectKey]


@dataclass(slots=True)
class ReplaceConnection:
    """Leave the connection for another one."""


Effect = Send | Log | Finish | WriteOutput | IssueWarnings | DropStoredObjects | ReplaceConnection
