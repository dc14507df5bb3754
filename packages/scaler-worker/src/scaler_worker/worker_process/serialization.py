"""Results to bytes, as cloudpickle would write them, without its cost where it cannot differ; large buffers of theirs
(arrays) stay where they are until they are written to their place."""

from __future__ import annotations

import io
import pickle
from types import CodeType
from typing import Any

import cloudpickle

from scaler_protocol.messages import INLINE_LIMIT_BYTES
from scaler_protocol.objects.layout import ObjectLayout, plan
from scaler_protocol.objects.proxies import ProxyReducers
from scaler_protocol.objects.reducers import Reducer
from scaler_protocol.objects.sent_code import with_version

PROTOCOL = pickle.HIGHEST_PROTOCOL
NONE_BYTES = pickle.dumps(None, PROTOCOL)


class _NeedsCloudpickle(Exception):
    pass


class _BuiltinPickler(pickle.Pickler):
    """Writes values made of exact builtin types only: those the C pickler writes without calling Python code."""

    def reducer_override(self, obj: object) -> Any:
        raise _NeedsCloudpickle


class _ResultReducers(ProxyReducers):
    """The dispatch table of results. Code runs in the same version of Python only."""

    def find(self, kind: type) -> Reducer | None:
        return _reduce_code if kind is CodeType else super().find(kind)


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    return with_version(code, cloudpickle.Pickler.dispatch_table[CodeType](code))


class _Pickler(cloudpickle.Pickler):
    dispatch_table = _ResultReducers(cloudpickle.Pickler.dispatch_table, False)


def allow_keys(is_private: bool) -> None:
    """Return whether results may contain secrets: what this process sends cannot be read by others."""
    _Pickler.dispatch_table.is_private = is_private


def dumps(value: object) -> bytes | ObjectLayout:
    """``load`` of layout undoes it, ``pickle.loads`` if it is bytes."""
    kind = type(value)
    if kind is list or kind is tuple or kind is dict or kind is set:
        buffer = io.BytesIO()
        try:
            _BuiltinPickler(buffer, PROTOCOL).dump(value)
            return buffer.getvalue()
        except _NeedsCloudpickle:
            pass
    buffers: list[pickle.PickleBuffer] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        """Return whether the value stays in the pickle."""
        if buffer.raw().nbytes <= INLINE_LIMIT_BYTES:
            return True
        buffers.append(buffer)
        return False

    buffer = io.BytesIO()
    _Pickler(buffer, PROTOCOL, buffer_callback=stays).dump(value)
    payload = buffer.getvalue()
    return plan(payload, buffers) if buffers else payload


class _Nowhere:
    def write(self, data: Any) -> int:
        return len(data)


def probe(value: object) -> None:
    """Raises what ``dumps`` would, and keeps nothing of what it makes."""
    _Pickler(_Nowhere(), PROTOCOL, buffer_callback=lambda _: False).dump(value)
