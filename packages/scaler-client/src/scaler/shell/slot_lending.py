"""A task whose nested client waits lends its slot: what the agent is told about it."""

from __future__ import annotations

from scaler.shell.waiting import Waits


class SlotLending:
    """The waits of one nested client. Several threads of a task may wait."""

    def __init__(self) -> None:
        self._for_tasks = 0
        self._for_locks = 0
        self._told = b"unblocked"

    @property
    def is_lent(self) -> bool:
        return bool(self._for_tasks or self._for_locks)

    def note(self, kind: Waits, change: int) -> bytes | None:
        """Begin (1) or end (-1) a wait. Returns the word for the agent, or None if it knows it already. Call ``told``
        when the word is sent."""
        if kind is Waits.FOR_A_LOCK:
            self._for_locks += change
        else:
            self._for_tasks += change
        word = b"waits for a lock" if self._for_locks else b"blocked" if self._for_tasks else b"unblocked"
        return None if word == self._told else word

    def told(self, word: bytes) -> None:
        self._told = word
