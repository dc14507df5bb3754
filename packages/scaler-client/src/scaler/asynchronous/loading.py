"""Loads a large pickle in another thread without stopping the event loop."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from scaler_protocol.objects.layout import load

_NEWLINE = 10
_PIECE_BYTES = 1024 * 1024


class PickleReader:
    """Gives a pickle to its unpickler frame by frame, 64 KiB at a time. Each call of a method written in Python is a
    place where another thread may take Python's global lock; ``pickle.loads`` keeps it to the end."""

    def __init__(self, data: memoryview | bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        start = self._at
        self._at = len(self._data) if size < 0 else min(start + size, len(self._data))
        return bytes(self._data[start : self._at])

    def readinto(self, buffer: Any, /) -> int:
        part = self._data[self._at : self._at + len(buffer)]
        for start in range(0, len(part), _PIECE_BYTES):
            self._copy(buffer, part, start)
        self._at += len(part)
        return len(part)

    def _copy(self, buffer: Any, part: memoryview, start: int) -> None:
        buffer[start : start + _PIECE_BYTES] = part[start : start + _PIECE_BYTES]

    def readline(self) -> bytes:
        end = self._at
        while end < len(self._data) and self._data[end] != _NEWLINE:
            end += 1
        return self.read(end + 1 - self._at)


def considerate(loads: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``loads``, or what does the same frame by frame if ``loads`` loads the objects of the default serializer."""
    return partial(load, loads=loads_in_frames) if loads is load else loads


def loads_in_frames(data: memoryview | bytes, *, buffers: Iterable[Any] = ()) -> Any:
    """Like ``pickle.loads``."""
    return pickle.Unpickler(PickleReader(data), buffers=buffers).load()
