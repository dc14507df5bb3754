"""The objects that a peer has dropped by messages that the store may not have handled yet.

So its own drops take effect for it at once, although it reads small objects without a question to the store.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.messages import ObjectKey

LIMIT = 1000
"""Beyond as many names, every object counts as dropped."""

_EVERYTHING = b""


class Dropped:
    """Several threads may use it."""

    def __init__(self) -> None:
        self.position = 0
        """The number of calls of ``add``."""
        self._names: dict[ObjectKey | bytes, int] = {}  # with the position of the last call

    def add(self, names: Iterable[ObjectKey | bytes]) -> None:
        """Keys of objects, and owners of all theirs. To be called before the message is sent."""
        self.position += 1
        self._names.update(dict.fromkeys(names, self.position))
        if len(self._names) > LIMIT:
            self._names = {_EVERYTHING: self.position}

    def may_have(self, key: ObjectKey) -> bool:
        names = self._names
        return bool(names) and (key in names or key.owner in names or _EVERYTHING in names)

    def on_handled(self, position: int) -> None:
        """The store has handled the messages of all calls up to this one."""
        for name, last in list(self._names.items()):
            if last <= position:
                self._names.pop(name, None)
