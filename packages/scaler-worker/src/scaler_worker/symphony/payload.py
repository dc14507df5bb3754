"""Inputs and outputs of Symphony's tasks, as bytes.

The users' service loads an input with cloudpickle, calls its first item with the others, and pickles what that returns.
"""

from __future__ import annotations

import io
import pickle
import struct
from functools import partial
from typing import Any

import cloudpickle

from scaler_protocol.objects.layout import MAGIC, load
from scaler_worker.symphony import shim
from scaler_worker.symphony.core.answer import SymphonyAnswer
from scaler_worker.symphony.core.effects import Call

_STATUSES = (shim.SUCCESS, shim.EXCEPTION, shim.EXCEPTION_NOT_SERIALIZABLE, shim.DESERIALIZE_FAILED)
_HEADER_SIZE_BYTES = struct.calcsize(shim.HEADER)


class Garbage(ValueError):
    """The output is not an answer of the shim. The text says what it is instead."""


def pack_call(number: int, call: Call, scheduler_address: str, worker_name: str) -> bytes:
    """The input of one task."""
    serializer = None if call.serializer is None else bytes(call.serializer)
    slots = [_as_pickle(bytes(slot)) if serializer is None else bytes(slot) for slot in call.slots]
    environment = _environment(call, scheduler_address, worker_name)
    arguments = (
        number, bytes(call.function), serializer, slots, call.keywords, environment, call.profiling, call.stream_output
    )  # fmt: skip
    return pickle.dumps((_SHIM, *arguments), _PROTOCOL)


def _as_pickle(data: bytes) -> bytes:
    """An argument as a plain pickle: the shim cannot read buffers that are stored next to one."""
    if not data.startswith(MAGIC):
        return data
    return load(memoryview(bytearray(data)), _joined)


def _joined(pickled: memoryview, buffers: list[memoryview]) -> bytes:
    return pickle.dumps(_Beside(bytes(pickled), [bytearray(buffer) for buffer in buffers]), _PROTOCOL)


class _Beside:
    """A pickle with its buffers, loaded with nothing but the standard library."""

    def __init__(self, pickled: bytes, buffers: list[bytearray]) -> None:
        self._pickled = pickled
        self._buffers = buffers

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(pickle.loads, buffers=self._buffers), (self._pickled,)


def unpack_answer(output: bytes, number: int) -> SymphonyAnswer:
    """Raises Garbage. Loads nothing but bytes, because any user may have written the service."""
    data = _loads_bytes(output)
    if len(data) < _HEADER_SIZE_BYTES:
        raise Garbage(f"an answer of {len(data)} bytes")
    magic, told, status, duration, cpu, peak, stdout, stderr = struct.unpack_from(shim.HEADER, data)
    payload_at = _HEADER_SIZE_BYTES + stdout + stderr
    if magic != shim.MAGIC or status not in _STATUSES or payload_at > len(data):
        raise Garbage("bytes that are not an answer")
    if told != number:
        raise Garbage("the answer of another task")
    texts_at = _HEADER_SIZE_BYTES + stdout
    return SymphonyAnswer(
        status, data[payload_at:], duration, cpu, peak, data[_HEADER_SIZE_BYTES:texts_at], data[texts_at:payload_at]
    )  # fmt: skip


def failure_report(error: BaseException, text: str) -> bytes:
    """The report of a task that raised ``error``, with ``text`` in place of its traceback. Empty when the exception
    cannot be pickled."""
    data = shim.pickled(error)
    return pickle.dumps((data, type(error).__qualname__, describe_text(error), text)) if data else b""


def describe_text(error: Any) -> str:
    """Describe the text in one line; empty if there is none."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return ""


def _environment(call: Call, scheduler_address: str, worker_name: str) -> dict[str, str | None]:
    """The environment that a client inside the task needs. There is no agent on the host, so the client connects by
    itself."""
    return {
        "SCALER_SCHEDULER_ADDRESS": scheduler_address,
        "SCALER_PARENT": f"{call.session.hex()}:{call.task}:{call.attempt}:{call.depth}",
        "SCALER_WORKER_NAME": worker_name,
        "SCALER_AGENT_SOCKET": None,
    }


# ---- inputs ----------------------------------------------------------------------------------------------------

_PROTOCOL = 5


def _pickled_shim() -> bytes:
    cloudpickle.register_pickle_by_value(shim)
    try:
        return bytes(cloudpickle.dumps(shim.run_call, _PROTOCOL))
    finally:
        cloudpickle.unregister_pickle_by_value(shim)


class _Prepared:
    """Pickled once, loaded wherever it arrives."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._data,)


_SHIM = _Prepared(_pickled_shim())


# ---- outputs ---------------------------------------------------------------------------------------------------


class _BytesUnpickler(pickle.Unpickler):
    """A pickle can name any function of any module; those of bytes name none."""

    def find_class(self, module: str, name: str) -> Any:
        raise Garbage(f"a pickle that names {module}.{name}")


def _loads_bytes(output: bytes) -> bytes:
    try:
        data = _BytesUnpickler(io.BytesIO(output)).load()
    except Garbage:
        raise
    except Exception as error:
        raise Garbage(f"{len(output)} bytes that are not a pickle ({type(error).__name__})") from None
    if type(data) is not bytes:
        raise Garbage(f"a value of type {type(data).__name__}")
    return data
