"""Objects from clients, as this worker process has loaded them, for those of its tasks that may share them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from scaler_protocol.messages import ObjectKey

_BLOCK_BYTES = 64
_SEEN_LIMIT = 1024
_IMMUTABLE = frozenset({bytes, str, int, float, complex, bool, type(None)})


class Loaded(NamedTuple):
    """``serializer``: the digest of the one that loaded it."""

    value: Any
    serializer: bytes
    size: int


class LoadedObjects:
    """A cache of at most ``limit_bytes`` of objects. The least recently used ones are dropped first.

    ``find``, ``add`` and ``was_seen`` may be interrupted by an exception of a signal handler; ``settle``, which enters
    the added objects, may not."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._objects: OrderedDict[ObjectKey, Loaded] = OrderedDict()
        self._total = 0
        self._seen: OrderedDict[ObjectKey, None] = OrderedDict()
        self._news: dict[ObjectKey, Loaded] = {}

    @property
    def has_news(self) -> bool:
        """Whether objects were added since ``settle`` was called."""
        return bool(self._news)

    @property
    def size_bytes(self) -> int:
        return self._total

    def find(self, key: ObjectKey, serializer: bytes) -> Loaded | None:
        known = self._objects.get(key)
        if known is None:
            known = self._news.get(key)
        else:
            self._objects.move_to_end(key)
        return known if known is not None and known.serializer == serializer else None

    def add(self, key: ObjectKey, serializer: bytes, value: Any, serialized_bytes: int, blocks: int) -> None:
        """``blocks``: the number of memory blocks that Python has allocated to load it."""
        size = max(serialized_bytes, blocks * _BLOCK_BYTES)
        if size <= self._limit_bytes:
            self._news[key] = Loaded(value, serializer, size)

    def settle(self) -> None:
        """Enter what was added, and drop what there is no room for."""
        news, self._news = self._news, {}
        for key, loaded in news.items():
            self.drop(key)
            self._objects[key] = loaded
            self._total += loaded.size
        while self._total > self._limit_bytes:
            self.drop(next(iter(self._objects)))

    def was_seen(self, key: ObjectKey) -> bool:
        """Return whether this was called before with ``key``, which is remembered for a while."""
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > _SEEN_LIMIT:
            self._seen.popitem(last=False)
        return False

    def drop(self, key: ObjectKey) -> None:
        """The object was released."""
        self._seen.pop(key, None)
        known = self._objects.pop(key, None)
        if known is not None:
            self._total -= known.size

    def keep_only(self, slots: Iterable[Any]) -> None:
        """Drop all objects but those whose keys are among ``slots``."""
        keys = {slot for slot in slots if type(slot) is ObjectKey}
        for key in [key for key in self._objects if key not in keys]:
            self.drop(key)

    def clear(self) -> None:
        self._objects.clear()
        self._seen.clear()
        self._total = 0


def is_immutable(value: Any) -> bool:
    """Return whether no task can change any part of ``value``: bytes, str, numbers, None, and tuples of these."""
    if type(value) in _IMMUTABLE:
        return True
    waiting = [value] if type(value) is tuple else None
    while waiting:
        for part in waiting.pop():
            kind = type(part)
            if kind is tuple:
                waiting.append(part)
            elif kind not in _IMMUTABLE:
                return False
    return waiting is not None
