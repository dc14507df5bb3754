"""Results to bytes, as cloudpickle would write them, without its cost where it cannot differ."""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle

PROTOCOL = pickle.HIGHEST_PROTOCOL
NONE_BYTES = pickle.dumps(None, PROTOCOL)


class _NeedsCloudpickle(Exception):
    pass


class _BuiltinPickler(pickle.Pickler):
    """Writes values made of exact builtin types only: those the C pickler writes without asking anybody."""

    def reducer_override(self, obj: object) -> Any:
        raise _NeedsCloudpickle


def dumps(value: object) -> bytes:
    """``pickle.loads`` undoes it."""
    kind = type(value)
    if kind is list or kind is tuple or kind is dict or kind is set:
        buffer = io.BytesIO()
        try:
            _BuiltinPickler(buffer, PROTOCOL).dump(value)
            return buffer.getvalue()
        except _NeedsCloudpickle:
            pass
    return cloudpickle.dumps(value, PROTOCOL)
