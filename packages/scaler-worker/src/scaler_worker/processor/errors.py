"""How a task's failure becomes bytes."""

from __future__ import annotations

import pickle
import traceback
from types import TracebackType

import cloudpickle
from tblib import pickling_support

from scaler_protocol.messages import Status
from scaler_worker.processor.shortening import shortened

MESSAGE_LIMIT_CHARACTERS = 16 * 1024
TRACEBACK_LIMIT_CHARACTERS = 64 * 1024
PAYLOAD_LIMIT_BYTES = 256 * 1024
CHAIN_LIMIT = 100


class TaskCancelled(BaseException):
    """Raised in a task's main thread when the task was cancelled or has run for too long."""


class ObjectMissing(Exception):
    """An argument that travels by reference is nowhere to be found."""


def exception_payload(error: BaseException, status: int = Status.EXCEPTION) -> tuple[int, bytes]:
    """Status and payload of a task that raised ``error``: the pickle of (exception bytes, type name, message,
    formatted traceback). Exception bytes are empty when it cannot be pickled."""
    error.__traceback__ = _user_traceback(error.__traceback__)
    name, message, text = _describe(error)
    data = _pickled(error)
    if not data and status == Status.EXCEPTION:
        status = Status.EXCEPTION_NOT_SERIALIZABLE
    return int(status), pickle.dumps((data, name, message, text))


def _describe(error: BaseException) -> tuple[str, str, str]:
    """Never raises, whatever the exception's own methods do."""
    name = type(error).__qualname__
    try:
        message = str(error)[:MESSAGE_LIMIT_CHARACTERS]
    except BaseException:
        message = "(its message could not be made)"
    try:
        text = "".join(traceback.format_exception(error))[-TRACEBACK_LIMIT_CHARACTERS:]
    except BaseException:
        text = f"{name}: {message}\n"
    return name, message, text


def _pickled(error: BaseException) -> bytes:
    """With its tracebacks; without them when they are too deep to be pickled (the formatted one travels anyway). Of an
    exception that is too large then, its own type with the beginning and the end of what it holds."""
    data = _dumps(error)
    if not data or len(data) > PAYLOAD_LIMIT_BYTES:
        _strip_tracebacks(error)
        data = _dumps(error)
    if len(data) > PAYLOAD_LIMIT_BYTES:
        data = _dumps(shortened(error, len(data), PAYLOAD_LIMIT_BYTES))
    return data if len(data) <= PAYLOAD_LIMIT_BYTES else b""


def _dumps(error: BaseException | None) -> bytes:
    """Empty when it cannot be pickled."""
    try:
        pickling_support.install(error)
        return cloudpickle.dumps(error) if error is not None else b""
    except BaseException:
        return b""


def _strip_tracebacks(error: BaseException | None) -> None:
    for _ in range(CHAIN_LIMIT):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _user_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Without the leading frames of this package."""
    first = trace
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if not filename.endswith((".pyx", "serialization.py")):
            return trace
        trace = trace.tb_next
    return first
