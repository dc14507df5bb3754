"""Serialization of a task's failure."""

from __future__ import annotations

import copyreg
import pickle
import traceback

import cloudpickle
from tblib import pickling_support

from scaler_protocol.culprit import explained
from scaler_protocol.messages import Status
from scaler_protocol.user_frames import user_part
from scaler_worker.worker_process.serialization import probe
from scaler_worker.worker_process.shortening import shortened

MESSAGE_LIMIT_CHARACTERS = 16 * 1024
TRACEBACK_LIMIT_CHARACTERS = 64 * 1024
PAYLOAD_LIMIT_BYTES = 256 * 1024
CHAIN_LIMIT = 100


class TaskCancelled(BaseException):
    """Raised in a task's main thread when the task was cancelled or has run for too long."""


class EnvironmentUnusableError(Exception):
    """This process cannot enter the environment of the task. The text goes to the user."""


class ObjectMissingError(Exception):
    """An argument that travels by reference is nowhere to be found."""


def exception_payload(error: BaseException, status: int = Status.EXCEPTION) -> tuple[int, bytes]:
    """Status and payload of a task that raised ``error``: the pickle of (exception bytes, type name, message,
    formatted traceback). Exception bytes are empty when it cannot be pickled."""
    for each in _chain(error):
        each.__traceback__ = user_part(each.__traceback__)
    name, message, text = _describe(error)
    for each in _chain(error):
        each.__traceback__ = None  # the formatted one travels
    data = _pickled(error)
    if not data and status == Status.EXCEPTION:
        status = Status.EXCEPTION_NOT_SERIALIZABLE
    return int(status), pickle.dumps((data, name, message, text))


def _describe(error: BaseException) -> tuple[str, str, str]:
    """Never raises, whatever the exception's own methods do."""
    name = type(error).__qualname__
    try:
        message = _ends(str(error), MESSAGE_LIMIT_CHARACTERS)
    except BaseException:
        message = "(its message could not be made)"
    try:
        text = _ends("".join(traceback.format_exception(error)), TRACEBACK_LIMIT_CHARACTERS)
    except BaseException:
        text = f"{name}: {message}\n"
    return name, message, text


def _ends(text: str, limit: int) -> str:
    """The beginning, with the frames of a traceback, and the end, with the last words of a message."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"


def _pickled(error: BaseException) -> bytes:
    """Pickle an exception with what it was raised from. Of an exception that is too large, its own type with the
    beginning and the end of what it holds."""
    data = _dumps(error)
    if len(data) > PAYLOAD_LIMIT_BYTES:
        data = _dumps(shortened(error, len(data), PAYLOAD_LIMIT_BYTES))
    return data if len(data) <= PAYLOAD_LIMIT_BYTES else b""


def _dumps(error: BaseException | None) -> bytes:
    """Empty when it cannot be pickled."""
    try:
        pickling_support.install(error)
        data = cloudpickle.dumps(error) if error is not None else b""
        return data if not data or _is_loadable(data) else _dumps_alone(error)
    except BaseException:
        return b""


def _is_loadable(data: bytes) -> bool:
    """tblib calls ``__new__`` without arguments for some types; not every type allows it."""
    try:
        pickle.loads(data)
    except BaseException:
        return False
    return True


def _dumps_alone(error: BaseException | None) -> bytes:
    """Pickle an exception as its type does: without what it was raised from."""
    copyreg.dispatch_table.pop(type(error), None)
    return cloudpickle.dumps(error)


def _chain(error: BaseException) -> list[BaseException]:
    """The exception and what it was raised from, or while it was handled."""
    chain: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and len(chain) < CHAIN_LIMIT:
        chain.append(each)
        each = each.__cause__ or each.__context__
    return chain


def unsendable_result(error: BaseException, function_name: str, result: object, is_default: bool) -> BaseException:
    """The exception for a result that could not be serialized: it names the function and the part. ``is_default``: by
    the default serializer, so that parts can be tried."""
    if not isinstance(error, Exception):
        return error
    return explained(error, f"Cannot send the result of {function_name}()", result, probe if is_default else None)
