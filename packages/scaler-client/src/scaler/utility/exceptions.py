"""Every error that Scaler raises. All derive from :class:`ScalerError`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any


class ScalerError(Exception):
    """The base class of all errors of Scaler."""


class ProcessorDiedError(ScalerError):
    """The task's process died each time it ran. ``certificates`` has one mapping per death: signal or exit code, peak
    memory, Python stack, last lines of stderr, host and pid."""

    def __init__(self, message: str = "", certificates: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message, tuple(certificates))
        self.certificates = tuple(certificates)

    def __str__(self) -> str:
        return str(self.args[0])


class ExecutorProcessDiedError(ProcessorDiedError, BrokenExecutor):
    """ProcessorDiedError for a call of an executor, where ``except BrokenExecutor`` catches it. The executor itself is
    not broken: another worker process takes the place of the one that died."""


class ActorDiedError(ScalerError):
    """The actor has ended: its constructor raised an exception, which is the cause; its process died, which
    ``certificates`` describe as in ProcessorDiedError; its host was lost; or it was killed."""

    def __init__(self, message: str = "", certificates: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message, tuple(certificates))
        self.certificates = tuple(certificates)

    def __str__(self) -> str:
        return str(self.args[0])


class WorkerDiedError(ScalerError):
    """The worker that ran the task is gone and the task must not run again."""


class NoWorkerError(ScalerError):
    """No worker can ever run the task."""


class MissingObjects(ScalerError):
    """An object that the task needs is gone: cleared, of another client, or lost with its last host."""


class ObjectStoreError(MemoryError, ScalerError):  # in this order: MemoryError.__new__ serves no type based on another
    """The object store of a host has no room for a large argument or result."""


class DisconnectedError(ScalerError, TimeoutError):
    """The scheduler was out of reach for ``timeout_seconds``, or refused this client."""


class LockLostError(ScalerError, RuntimeError):
    """A lock or a semaphore was given to others while its holder still used it: the holder was out of reach for too
    long, or the task that had acquired it had ended."""


class TaskTimeoutError(ScalerError):
    """The task ran longer than it may."""


class TaskMemoryError(ScalerError):
    """The task used more memory than it may."""


class ClientQuitException(ScalerError):
    """The client was disconnected before this call."""


class ControlError(ScalerError):
    """The scheduler has refused an action on workers or on tasks of other clients. The message says why."""


class DeserializeObjectError(ScalerError):
    """A function, argument, result or exception could not be loaded where it arrived."""


class TaskExceptionNotSerializableError(ScalerError):
    """The task raised an exception that cannot be pickled; the message is its type and text."""


class TaskNotFoundError(ScalerError):
    """The scheduler does not know the task."""


class RemoteTraceback(Exception):
    """The cause of an exception that a task raised: its traceback on the worker, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'
