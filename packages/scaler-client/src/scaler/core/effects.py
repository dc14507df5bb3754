"""The effects of a session, which its shell carries out."""

from __future__ import annotations

from scaler.core.outcome import Outcome, Sink
from scaler_protocol.effects import Log, Send
from scaler_protocol.messages import HostSoftware, ObjectKey
from scaler_protocol.value import value

__all__ = [
    "CompareSoftware",
    "DropStoredObjects",
    "Effect",
    "Finish",
    "IssueWarnings",
    "Log",
    "PushObject",
    "ReplaceConnection",
    "Send",
    "WriteOutput",
]


@value(frozen=True, slots=True)
class Finish:
    """Pass ``outcome`` to ``sink``, for which a thread waits. Carried out without the lock, because callbacks run."""

    sink: Sink
    outcome: Outcome


@value(frozen=True, slots=True)
class WriteOutput:
    """Write output of a task. Stream 1 is stdout, 2 is stderr."""

    stream: int
    data: bytes


@value(frozen=True, slots=True)
class IssueWarnings:
    """Issue the warnings of a task: the pickle of a list of (pickled category, message, file, line, module)."""

    data: bytes


@value(frozen=True, slots=True)
class CompareSoftware:
    """Warn of differences between the software of these workers and that of this process. ``has_environment``: tasks
    run with packages of their own, so those of the workers do not matter."""

    workers: HostSoftware
    has_environment: bool


@value(frozen=True, slots=True)
class DropStoredObjects:
    """Let this host's store forget these objects."""

    keys: list[ObjectKey]


@value(frozen=True, slots=True)
class PushObject:
    """Send an object to a store on another host, over a connection that is opened from here. If that fails, call
    ``on_request`` of the kept objects: then it goes through the scheduler."""

    key: ObjectKey
    data: bytes | memoryview
    endpoint: str


@value(frozen=True, slots=True)
class ReplaceConnection:
    """Close the connection and open another one."""


Effect = (
    Send
    | Log
    | Finish
    | WriteOutput
    | IssueWarnings
    | CompareSoftware
    | DropStoredObjects
    | PushObject
    | ReplaceConnection
)
