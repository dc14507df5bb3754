"""This agent's objects: they leave it inside the inputs of tasks, so they are plain bytes."""

from __future__ import annotations

from scaler_protocol.messages import ObjectKey


class MemoryStore:
    """A ``Store`` (see core/objects). Results have the number of their execution until they are named."""

    def __init__(self) -> None:
        self._contents: dict[ObjectKey, bytes | bytearray] = {}
        self._results: dict[int, bytes] = {}

    def content(self, key: ObjectKey) -> bytes | bytearray | None:
        """All of it; None: it is not here."""
        return self._contents.get(key)

    def add_result(self, number: int, payload: bytes) -> None:
        self._results[number] = payload

    def create(self, key: ObjectKey, size: int) -> None:
        self._contents[key] = bytearray(size)

    def write(self, key: ObjectKey, offset: int, data: bytes) -> None:
        content = self._contents[key]
        assert isinstance(content, bytearray)
        content[offset : offset + len(data)] = data

    def read(self, key: ObjectKey, offset: int, size: int) -> bytes:
        return bytes(self._contents[key][offset : offset + size])

    def size(self, key: ObjectKey) -> int | None:
        content = self._contents.get(key)
        return None if content is None else len(content)

    def catch_up(self, number: int) -> None:
        """Nothing to do: an answer contains everything."""

    def name_result(self, number: int, sequence: int, key: ObjectKey) -> bool:
        self._contents[key] = self._results.pop(number)
        return True

    def drop(self, key: ObjectKey) -> None:
        self._contents.pop(key, None)
