"""The effects of the agent's core, in addition to those that all cores share."""

from __future__ import annotations

from scaler_protocol.messages import ObjectKey
from scaler_protocol.value import value
from scaler_worker.core.dispatch import DispatchTasks

__all__ = [
    "AttachStore", "BeginProfile", "DropObjects", "DropStored", "Echo", "EndProfile", "Exit", "FetchStored",
    "FindStored", "ForgetOwner", "DispatchTasks", "InstallPackages", "Interrupt", "JoinStore", "Kill", "ReadOutput",
    "ReadStored", "Reconnect", "ReleasePackages", "RenewNested", "Resume", "SendNested", "StartWorkerProcess",
    "Suspend",
]  # fmt: skip


@value(frozen=True, slots=True)
class StartWorkerProcess:
    """Fork a worker process and report it with ``on_worker_process_started``, later ``on_worker_process_ready``."""

    number: int
    name: str


@value(frozen=True, slots=True)
class Interrupt:
    """Signal the worker process: the task that its board names is to end."""

    number: int


@value(frozen=True, slots=True)
class Kill:
    number: int


@value(frozen=True, slots=True)
class Suspend:
    number: int


@value(frozen=True, slots=True)
class Resume:
    number: int


@value(frozen=True, slots=True)
class DropObjects:
    """Tell the worker process that it may forget these objects."""

    number: int
    keys: list[ObjectKey]


@value(frozen=True, slots=True)
class JoinStore:
    """The cluster's name, by which the host's store is found. Worker processes are told, too."""

    cluster: bytes


@value(frozen=True, slots=True)
class AttachStore:
    """Something is in the host's store: connect to it, and say so with ``on_store_status`` or ``on_store_lost``."""


@value(frozen=True, slots=True)
class FindStored:
    """Ask the host's store for each of these; ``on_stored`` or ``on_not_stored`` answers."""

    keys: list[ObjectKey]


@value(frozen=True, slots=True)
class InstallPackages:
    """Have these packages on this host; ``on_packages_installed`` or ``on_packages_failed`` answers."""

    requirements: tuple[str, ...]


@value(frozen=True, slots=True)
class ReleasePackages:
    """No task needs these packages any more, nor the answer if they are being installed."""

    requirements: tuple[str, ...]


@value(frozen=True, slots=True)
class ReadStack:
    """Ask this worker process where it is; ``on_stack`` answers the request of this number."""

    request: int
    number: int


@value(frozen=True, slots=True)
class BeginProfile:
    """Sample where the tasks are; the profile has this number."""

    number: int
    interval_us: int


@value(frozen=True, slots=True)
class EndProfile:
    """End the profile with this number; ``on_profile`` gets its samples."""

    number: int


@value(frozen=True, slots=True)
class ReadOutput:
    """Output is accepted again: listen to the worker processes that had to wait."""


@value(frozen=True, slots=True)
class Echo:
    """Write this to stdout (1) or stderr (2) of the agent. Nothing waits until it is read."""

    stream: int
    data: bytes


@value(frozen=True, slots=True)
class ReadStored:
    """Map an object of the host's store; ``on_stored_view`` answers."""

    key: ObjectKey


@value(frozen=True, slots=True)
class FetchStored:
    """Have the host's store fetch an object from other stores; ``on_stored`` or ``on_not_stored`` answers."""

    key: ObjectKey
    size: int
    sources: tuple[str, ...]


@value(frozen=True, slots=True)
class DropStored:
    """Tell the host's store that it need not keep these objects."""

    keys: list[ObjectKey]


@value(frozen=True, slots=True)
class ForgetOwner:
    """Have the host's store, if there is one, drop all objects of this owner."""

    owner: bytes


@value(frozen=True, slots=True)
class SendNested:
    """Send a message to a client inside a task."""

    session: bytes
    frames: tuple[bytes, ...]


@value(frozen=True, slots=True)
class RenewNested:
    """Ask a client inside a task for a new Hello: the scheduler does not know it any more."""

    session: bytes


@value(frozen=True, slots=True)
class Reconnect:
    """Leave the connection to the scheduler for another one."""


@value(frozen=True, slots=True)
class Exit:
    """End the agent, with all processes that it started."""

    code: int
    text: str
