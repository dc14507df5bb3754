"""Ray's exceptions. The cause of each is what Scaler raised."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from scaler.utility import exceptions
from scaler.utility.exceptions import (
    MissingObjects,
    NoWorkerError,
    ObjectStoreError,
    ProcessorDiedError,
    ScalerError,
    TaskMemoryError,
    WorkerDiedError,
)

_CLASSES_LIMIT = 256


class RayError(Exception):
    """The base class of all errors of this interface."""


class RayTaskError(RayError):
    """A task raised ``cause``. ``get`` raises an object that is also an instance of the class of ``cause``, if Python
    permits such a class."""

    cause: BaseException

    def __init__(self, cause: BaseException) -> None:
        super().__init__(*cause.args)
        self.args = cause.args
        self.cause = cause

    def __str__(self) -> str:
        return str(self.cause)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.cause!r}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "cause":
            raise AttributeError(name)
        return getattr(self.cause, name)

    def __reduce__(self) -> tuple[Callable[[BaseException], RayTaskError], tuple[BaseException]]:
        return task_error, (self.cause,)

    def as_instanceof_cause(self) -> RayTaskError:
        """The same error, as an instance of the class of its cause."""
        return task_error(self.cause)


class TaskCancelledError(RayError):
    """The task was cancelled."""


class GetTimeoutError(RayError, TimeoutError):
    """``get`` waited for ``timeout`` seconds."""


class WorkerCrashedError(RayError):
    """The process of the task died, or its host was lost."""


class RayActorError(RayError):
    """The actor has ended: its constructor raised an exception, its process died, or it was killed."""


ActorDiedError = RayActorError


class OutOfMemoryError(RayError):
    """The task used more memory than it may."""


class TaskUnschedulableError(RayError):
    """No worker can ever run the task."""


class ObjectLostError(RayError):
    """A value is gone: released, or lost with its last host."""


class ObjectStoreFullError(RayError):
    """The object store of a host has no room for a value."""


class RaySystemError(RayError):
    """Any other failure of the cluster, such as a scheduler that is out of reach."""


_COUNTERPARTS: tuple[tuple[type[BaseException], type[RayError]], ...] = (
    (concurrent.futures.CancelledError, TaskCancelledError),
    (exceptions.ActorDiedError, RayActorError),
    (ProcessorDiedError, WorkerCrashedError),
    (WorkerDiedError, WorkerCrashedError),
    (TaskMemoryError, OutOfMemoryError),
    (NoWorkerError, TaskUnschedulableError),
    (MissingObjects, ObjectLostError),
    (ObjectStoreError, ObjectStoreFullError),
    (ScalerError, RaySystemError),
)


def ray_error(error: BaseException) -> RayError:
    """The error that users of Ray expect for the failure of a task."""
    for theirs, counterpart in _COUNTERPARTS:
        if isinstance(error, theirs):
            made: RayError = counterpart(str(error) or "The task was cancelled.")
            break
    else:
        made = task_error(error)
    made.__cause__ = error.cause if isinstance(error, RayTaskError) else error
    return made


def task_error(cause: BaseException) -> RayTaskError:
    """An error that is also an instance of the class of ``cause``, if Python permits such a class."""
    if isinstance(cause, RayTaskError):
        cause = cause.cause
    try:
        return _class_of(type(cause))(cause)  # type: ignore[arg-type]  # classes are hashable
    except TypeError:  # it cannot be a base together with another one, or its objects need other arguments
        return RayTaskError(cause)


@lru_cache(_CLASSES_LIMIT)
def _class_of(cause_class: type[BaseException]) -> type[RayTaskError]:
    name = f"RayTaskError({cause_class.__name__})"
    return type(name, (RayTaskError, cause_class), {"__init__": _init, "__module__": __name__})


def _init(self: RayTaskError, cause: BaseException) -> None:
    self.args = cause.args
    self.cause = cause
