"""Turns outcomes into the results and exceptions that users see."""

from __future__ import annotations

import concurrent.futures
import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

from scaler.client.deaths import processor_died
from scaler.core.outcome import DISCONNECTED, Outcome
from scaler.shell.interruptions import is_interruption
from scaler.utility.exceptions import (
    ActorDiedError,
    DeserializeObjectError,
    DisconnectedError,
    MissingObjects,
    NoWorkerError,
    ObjectStoreError,
    ProcessorDiedError,
    RemoteTraceback,
    ScalerError,
    TaskExceptionNotSerializableError,
    TaskMemoryError,
    TaskNotFoundError,
    TaskTimeoutError,
    WorkerDiedError,
)
from scaler_protocol.messages import Status
from scaler_protocol.objects.errors import StoreFull
from scaler_protocol.output_text import shown_lines
from scaler_protocol.user_frames import hide_internals

NOTED_LINES = 20
"""The number of last lines of stderr that a failure shows."""

_ERRORS_WITH_TEXT: dict[int, type[ScalerError]] = {
    Status.TIMED_OUT: TaskTimeoutError,
    Status.MEMORY_EXCEEDED: TaskMemoryError,
    Status.WORKER_DIED: WorkerDiedError,
    Status.OBJECT_MISSING: MissingObjects,
    Status.NO_WORKER: NoWorkerError,
    Status.NOT_FOUND: TaskNotFoundError,
    DISCONNECTED: DisconnectedError,
}


def loads_result(loads: Callable[[Any], Any], payload: bytes | memoryview) -> Any:
    """Load a result. Raises DeserializeObjectError for any exception of the payload, but not for those of signal
    handlers."""
    try:
        return loads(payload)
    except BaseException as error:
        if is_interruption(error, partial(loads, payload)):
            raise
        raise unloadable(error) from error


def unloadable(error: BaseException) -> DeserializeObjectError:
    """The exception for a result that raised ``error`` when it was loaded."""
    failure = DeserializeObjectError(f"The result could not be loaded: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def failure_of(outcome: Outcome) -> BaseException:
    status, payload = outcome.status, bytes(outcome.payload)
    if status in (Status.EXCEPTION, Status.EXCEPTION_NOT_SERIALIZABLE, Status.DESERIALIZE_FAILED):
        return _raised_by_task(status, payload)
    if status == Status.CANCELLED:
        return cancelled(outcome)
    if status == Status.PROCESSOR_DIED:
        return processor_died(payload)
    error_class = _ERRORS_WITH_TEXT.get(status, ScalerError)
    return error_class(payload.decode(errors="replace") or f"The task ended with status {status}.")


def cancelled(outcome: Outcome | None) -> concurrent.futures.CancelledError:
    """The exception of a cancelled task. Its text says who has cancelled it, unless its client has."""
    known = outcome is not None and outcome.status == Status.CANCELLED and bytes(outcome.payload)
    return concurrent.futures.CancelledError(*([known.decode(errors="replace")] if known else []))


def actor_died(
    name: str, outcome: Outcome, anchor: concurrent.futures.Future[Any] | None, restarts: int
) -> ActorDiedError:
    """The exception of a call whose actor has ended. ``anchor``: the future of the task that made it, if that is known
    to have ended. ``restarts``: how often it may be made again."""
    if anchor is not None and anchor.cancelled():
        who = cancelled(getattr(anchor, "_outcome", None))
        return ActorDiedError(f"The actor of {name} was killed. {who}".rstrip())
    if anchor is None and outcome.status == Status.NOT_FOUND:
        return ActorDiedError(
            f"The actor of {name} is unknown to this cluster: the client that made it has left, or is one of another"
            " cluster."
        )
    cause = anchor.exception() if anchor is not None else failure_of(outcome)
    certificates = cause.certificates if isinstance(cause, ProcessorDiedError) else ()
    if isinstance(cause, (ProcessorDiedError, WorkerDiedError)):
        lost = " Its state is lost; later calls reach a new instance." if restarts and anchor is None else ""
        return ActorDiedError(f"The actor of {name} has died.{lost} {cause}", certificates)
    failure = ActorDiedError(f"The actor of {name} could not be made: {type(cause).__name__}: {cause}")
    failure.__cause__ = cause
    return failure


def _raised_by_task(status: int, payload: bytes) -> BaseException:
    stream = io.BytesIO(payload)
    try:
        pickled, type_name, message, traceback_text = pickle.load(stream)
    except BaseException as error:
        if is_interruption(error, partial(pickle.loads, payload)):
            raise
        return DeserializeObjectError(f"The report of a failed task could not be loaded: {error}")
    exception = _exception_of(status, pickled, type_name, message)
    if traceback_text:
        exception.__context__ = exception.__cause__ or exception.__context__  # it is in the text, too
        exception.__cause__ = RemoteTraceback(traceback_text)
    _note_stderr(exception, stream.read())
    return exception


def _note_stderr(exception: BaseException, data: bytes) -> None:
    """``data``: the end of what the task wrote to stderr."""
    lines = shown_lines(data)
    if lines:
        indented = "\n".join(f"  {line}" for line in lines[-NOTED_LINES:])
        exception.add_note(f"The task wrote to stderr{' at last' if len(lines) > NOTED_LINES else ''}:\n{indented}")


def hide_frames(error: BaseException) -> None:
    """Hide the frames of this package in the traceback of ``error``, which is being handled. Only ``raise`` follows."""
    is_told = isinstance(error, (ScalerError, concurrent.futures.CancelledError))
    hide_internals(error, is_told or isinstance(error.__cause__, RemoteTraceback))


def _exception_of(status: int, pickled: bytes, type_name: str, message: str) -> BaseException:
    text = f"{type_name}: {message}" if message else type_name
    if status == Status.DESERIALIZE_FAILED:
        return _not_loaded(text, pickled)
    if status == Status.EXCEPTION_NOT_SERIALIZABLE or not pickled:
        return TaskExceptionNotSerializableError(text)
    try:
        exception = pickle.loads(pickled)
    except BaseException as error:
        if is_interruption(error, partial(pickle.loads, pickled)):
            raise
        return DeserializeObjectError(f"{text} (the exception could not be loaded here: {error})")
    if isinstance(exception, StoreFull):
        return ObjectStoreError(str(exception))
    if isinstance(exception, BaseException):
        return exception
    return TaskExceptionNotSerializableError(text)


def _not_loaded(text: str, pickled: bytes) -> DeserializeObjectError:
    """The exception for a function or an argument that a worker could not load, with the notes of the worker's."""
    failure = DeserializeObjectError(text)
    try:
        notes = getattr(pickle.loads(pickled), "__notes__", ()) if pickled else ()
    except BaseException as error:
        if is_interruption(error, partial(pickle.loads, pickled)):
            raise
        return failure
    for note in notes:
        failure.add_note(str(note))
    return failure
