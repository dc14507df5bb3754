"""The function that travels to Symphony's hosts with every task: it runs the task and says how that went.

It is pickled by value, and uses the standard library and cloudpickle only: plain tasks need nothing of Scaler where
they run. (tblib, if it is there, makes tracebacks whole; a task that uses ``Client()`` needs scaler-client.)
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle
import struct
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

import cloudpickle

HEADER = "<8sQBQQQII"
"""Magic, number of the execution, status, duration and processor time in microseconds, memory peak in bytes, sizes of
what was written to stdout and stderr, which follow, and then the payload."""

MAGIC = b"SCALER\x00\x01"
SUCCESS, EXCEPTION, EXCEPTION_NOT_SERIALIZABLE, DESERIALIZE_FAILED = 0, 2, 3, 8

_MESSAGE_LIMIT_CHARACTERS = 16 * 1024
_TRACEBACK_LIMIT_CHARACTERS = 64 * 1024
_EXCEPTION_LIMIT_BYTES = 256 * 1024
_CHAIN_LIMIT = 100
_OUTPUT_LIMIT_CHARACTERS = 256 * 1024


def run_call(
    number: int,
    function: bytes,
    serializer: bytes | None,
    slots: list[bytes],
    keywords: tuple[str, ...],
    environment: dict[str, str | None],
    profiling: bool,
    stream_output: bool,
) -> bytes:
    """The answer that ``HEADER`` describes. Never raises: any exception of the task is its result."""
    with _environment(environment), _output(stream_output) as outputs:
        if profiling:
            _memory_peak(True)
        started, cpu_started = time.perf_counter_ns(), time.process_time_ns()
        try:
            status, payload = _run(function, serializer, slots, keywords)
        except BaseException as error:  # the report itself failed, in ways that only the user's classes know
            status, payload = EXCEPTION_NOT_SERIALIZABLE, pickle.dumps((b"", type(error).__name__, "", ""))
        duration, cpu = time.perf_counter_ns() - started, time.process_time_ns() - cpu_started
        peak = _memory_peak(False) if profiling else 0
    stdout, stderr = [each.getvalue().encode(errors="replace") for each in outputs]
    header = struct.pack(
        HEADER, MAGIC, number, status, duration // 1000, cpu // 1000, peak, len(stdout), len(stderr)
    )  # fmt: skip
    return header + stdout + stderr + payload


def _run(function: bytes, serializer: bytes | None, slots: list[bytes], keywords: tuple[str, ...]) -> tuple[int, bytes]:
    failed = DESERIALIZE_FAILED
    try:
        codec = _Codec(serializer)
        call = codec.loads(function)
        values = [codec.loads(slot) for slot in slots]
        failed = EXCEPTION
        count = len(values) - len(keywords)
        result = call(*values[:count], **dict(zip(keywords, values[count:])))  # noqa: B905  the host's Python may be old
        return SUCCESS, codec.dumps(result)
    except BaseException as error:
        return _failure(error, failed)


class _Codec:
    """The serialization of this task's function, arguments and result."""

    def __init__(self, serializer: bytes | None) -> None:
        self._serializer = None if serializer is None else _loads(serializer)

    def loads(self, data: bytes) -> Any:
        return _loads(data) if self._serializer is None else self._serializer.deserialize(bytes(data))

    def dumps(self, value: Any) -> bytes:
        if self._serializer is None:
            return bytes(cloudpickle.dumps(value))
        data = self._serializer.serialize(value)
        if not isinstance(data, (bytes, bytearray)):
            raise TypeError(f"serialize() must return bytes, not {type(data).__name__}")
        return bytes(data)


class _Unpickler(pickle.Unpickler):
    """Loads what clients pickle. Code in it names a function of Scaler, which may be missing here."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "make_code" and module == "scaler_protocol.objects.sent_code":
            return _make_code
        if name == "loads" and module in ("pickle", "_pickle"):  # of a pickle within this one
            return _loads
        return pickle.Unpickler.find_class(self, module, name)


def _loads(data: bytes, buffers: Iterable[Any] = ()) -> Any:
    return _Unpickler(io.BytesIO(data), buffers=buffers).load()


def _make_code(version: tuple[int, int], name: str, make: Any, arguments: tuple[Any, ...]) -> Any:
    """Do what ``sent_code.make_code`` does."""
    here = sys.version_info[:2]
    if version != here:
        raise TypeError(
            f"Cannot run the code of {name}(): it is of Python {version[0]}.{version[1]}, and this host runs Python"
            f" {here[0]}.{here[1]}. Use the same minor version of Python for clients and the hosts of Symphony."
        )
    return make(*arguments)


# ---- failures --------------------------------------------------------------------------------------------------


def _failure(error: BaseException, status: int) -> tuple[int, bytes]:
    """The pickle of (exception as bytes, type name, message, formatted traceback)."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # without the frame of this module
    name = type(error).__qualname__
    message = _text(lambda: str(error), "(its message could not be made)")
    trace = _text(lambda: "".join(traceback.format_exception(type(error), error, error.__traceback__)), "")
    data = pickled(error)
    if not data and status == EXCEPTION:
        status = EXCEPTION_NOT_SERIALIZABLE
    short = (data, name, message[:_MESSAGE_LIMIT_CHARACTERS], trace[-_TRACEBACK_LIMIT_CHARACTERS:])
    return status, pickle.dumps(short)


def _text(make: Any, otherwise: str) -> str:
    try:
        return str(make())
    except BaseException:
        return otherwise


def pickled(error: BaseException) -> bytes:
    """Pickle like ordinary workers: without tracebacks if they are too deep, shortened if it is too large even then.
    Nothing when it cannot be pickled."""
    data = _dumps(error)
    if not data:
        _strip_tracebacks(error)
        data = _dumps(error)
    return data or _dumps_shortened(error)


def _dumps(error: BaseException) -> bytes:
    try:
        _keep_tracebacks(error)
        data = bytes(cloudpickle.dumps(error))
    except BaseException:
        return b""
    return data if len(data) <= _EXCEPTION_LIMIT_BYTES else b""


def _strip_tracebacks(error: BaseException | None) -> None:
    for _ in range(_CHAIN_LIMIT):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _dumps_shortened(error: BaseException) -> bytes:
    """Pickle without causes, and with the beginning of the texts."""
    try:
        short = copy.copy(error)
        short.__cause__ = short.__context__ = None
        short.args = tuple(_beginning(each) for each in short.args)
    except BaseException:  # what cannot be copied cannot be shortened
        return b""
    return _dumps(short)


def _beginning(value: Any) -> Any:
    if type(value) is not str or len(value) <= _MESSAGE_LIMIT_CHARACTERS:
        return value
    return f"{value[:_MESSAGE_LIMIT_CHARACTERS]}... ({len(value):,} characters)"


def _keep_tracebacks(error: BaseException) -> None:
    try:
        from tblib import pickling_support
    except ImportError:  # the formatted traceback travels anyway
        return
    pickling_support.install(error)


# ---- around the task -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _environment(changes: dict[str, str | None]) -> Iterator[None]:
    """Variables for the time of the task; None: not set."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def _output(wanted: bool) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Collect the output of the task; stdout and stderr receive it as well."""
    kept = io.StringIO(), io.StringIO()
    if not wanted:
        yield kept
        return
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Tee(before[0], kept[0]), _Tee(before[1], kept[1])
    try:
        yield kept
    finally:
        sys.stdout, sys.stderr = before


class _Tee:
    """A stream that keeps a copy of what is written; in everything else it is the original."""

    def __init__(self, original: Any, kept: io.StringIO) -> None:
        self._original = original
        self._kept = kept
        self._room = _OUTPUT_LIMIT_CHARACTERS

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def write(self, text: str) -> int:
        if self._room > 0:
            self._kept.write(text[: self._room])
            self._room -= len(text)
            if self._room <= 0:
                self._kept.write("\n[the rest of the output was left out]\n")
        if self._original is not None:
            self._original.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._original is not None:
            self._original.flush()


def _memory_peak(reset: bool) -> int:
    """Bytes at most resident since the last reset, as far as this system tells."""
    try:
        if reset:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            return 0
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return _largest_resident_bytes()


def _largest_resident_bytes() -> int:
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
