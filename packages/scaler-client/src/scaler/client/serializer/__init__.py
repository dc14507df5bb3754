"""The serialization of functions, arguments and results."""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
from abc import ABC, abstractmethod
from typing import Any

import cloudpickle

from scaler.client.reducers import ArgumentReducers
from scaler.utility.private_apis import clear_globals
from scaler_protocol.messages import INLINE_LIMIT_BYTES
from scaler_protocol.objects.layout import ObjectLayout, plan

PICKLE_PROTOCOL = 5
_KEPT_BUFFER_LIMIT_BYTES = 64 * 1024


class Serializer(ABC):
    """Derive from this to use another format. The class travels to the workers by cloudpickle. ``serialize`` is called
    once for a function, once per argument and once for a result; ``deserialize`` gets ``bytes``."""

    @staticmethod
    @abstractmethod
    def serialize(obj: Any) -> bytes: ...

    @staticmethod
    @abstractmethod
    def deserialize(payload: bytes) -> Any: ...


class DefaultSerializer(Serializer):
    """cloudpickle: takes lambdas, closures and what is defined in ``__main__``."""

    @staticmethod
    def serialize(obj: Any) -> bytes:
        return _reused.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        return pickle.loads(payload)


def serialize_apart(obj: Any) -> bytes | ObjectLayout:
    """Like DefaultSerializer, but large buffers of an object (arrays) are not copied but referred to."""
    return _reused.dumps_apart(obj)


def serialize_privately(obj: Any) -> bytes:
    """Like DefaultSerializer, for a client whose messages others cannot read, so that they may contain secrets."""
    return _reused_private.dumps(obj)


def serialize_privately_apart(obj: Any) -> bytes | ObjectLayout:
    """Like ``serialize_privately``, with large buffers as in ``serialize_apart``."""
    return _reused_private.dumps_apart(obj)


def serialize_for_sharing(obj: Any) -> bytes | ObjectLayout:
    """Like ``serialize_apart``, with all buffers apart, so that the tasks that share the object can have all its arrays
    read-only."""
    return _reused.dumps_apart(obj, 0)


def serialize_privately_for_sharing(obj: Any) -> bytes | ObjectLayout:
    """Like ``serialize_for_sharing``, for a client whose messages others cannot read."""
    return _reused_private.dumps_apart(obj, 0)


def send_program_by_value() -> None:
    """Let functions and classes of a program travel with their code also from the processes that multiprocessing spawns
    for it: these call the program ``__mp_main__``, which no worker can import."""
    program = sys.modules.get("__main__")
    if program is not None and getattr(program, "__name__", "") == "__mp_main__":
        cloudpickle.register_pickle_by_value(program)


class _NullFile:
    def write(self, data: Any) -> int:
        return len(data)


def probe(obj: Any) -> None:
    """Raise what serializing ``obj`` would raise, and discard its output."""
    _ArgumentPickler(_NullFile(), PICKLE_PROTOCOL, buffer_callback=lambda _: False).dump(obj)


def probe_privately(obj: Any) -> None:
    """Like ``probe``, for a client whose messages others cannot read."""
    _PrivatePickler(_NullFile(), PICKLE_PROTOCOL, buffer_callback=lambda _: False).dump(obj)


class _ArgumentPickler(cloudpickle.Pickler):
    dispatch_table = ArgumentReducers(cloudpickle.Pickler.dispatch_table, is_private=False)


class _PrivatePickler(cloudpickle.Pickler):
    dispatch_table = ArgumentReducers(cloudpickle.Pickler.dispatch_table, is_private=True)


class ReusedPickler:
    """cloudpickle's pickler, kept between calls: making one costs more than most arguments. A caller that finds it in
    use (another thread, or an object whose pickling pickles) makes a new one."""

    def __init__(self, kind: type[cloudpickle.Pickler] = _ArgumentPickler) -> None:
        self._kind = kind
        self._in_use = threading.Lock()
        self._largest_kept_bytes: int | None = None  # of the buffers that go into the pickle; None: all do
        self._buffers: list[pickle.PickleBuffer] = []
        self._buffer, self._pickler = self._make()

    def dumps(self, obj: Any) -> bytes:
        if not self._in_use.acquire(blocking=False):
            return ReusedPickler(self._kind).dumps(obj)
        try:
            return self._dumps(obj)
        except BaseException:
            self._renew()
            raise
        finally:
            self._in_use.release()

    def dumps_apart(self, obj: Any, largest_kept_bytes: int = INLINE_LIMIT_BYTES) -> bytes | ObjectLayout:
        """Larger buffers do not go into the pickle."""
        if not self._in_use.acquire(blocking=False):
            return ReusedPickler(self._kind).dumps_apart(obj, largest_kept_bytes)
        try:
            self._largest_kept_bytes = largest_kept_bytes
            payload = self._dumps(obj)
            if not self._buffers:
                return payload
            buffers, self._buffers = self._buffers, []
            return plan(payload, buffers)
        except BaseException:
            self._renew()
            raise
        finally:
            self._largest_kept_bytes = None
            self._in_use.release()

    def _dumps(self, obj: Any) -> bytes:
        buffer, pickler = self._buffer, self._pickler
        pickler.dump(obj)
        payload = buffer.getvalue()
        if len(payload) > _KEPT_BUFFER_LIMIT_BYTES:
            self._buffer, self._pickler = self._make()
            return payload
        buffer.seek(0)
        buffer.truncate()
        pickler.clear_memo()
        clear_globals(pickler)
        return payload

    def _stays(self, buffer: pickle.PickleBuffer) -> bool:
        """Return whether a buffer goes into the pickle."""
        if self._largest_kept_bytes is None or buffer.raw().nbytes <= self._largest_kept_bytes:
            return True
        self._buffers.append(buffer)
        return False

    def _renew(self) -> None:
        self._buffers = []
        self._buffer, self._pickler = self._make()

    def _make(self) -> tuple[io.BytesIO, cloudpickle.Pickler]:
        buffer = io.BytesIO()
        return buffer, self._kind(buffer, PICKLE_PROTOCOL, buffer_callback=self._stays)


_reused = ReusedPickler()
_reused_private = ReusedPickler(_PrivatePickler)


def _reset_after_fork() -> None:
    """The child may have been forked while another thread used the pickler."""
    global _reused, _reused_private
    _reused, _reused_private = ReusedPickler(), ReusedPickler(_PrivatePickler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
