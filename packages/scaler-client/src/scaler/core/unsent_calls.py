"""Calls that wait in the client for results of other tasks: how many there are, for the scheduler and its monitors."""

from __future__ import annotations

from collections import Counter

from scaler.core.outgoing import Outgoing
from scaler.core.runs import Function
from scaler_protocol.messages import (
    UNSENT_CALLS_SINCE_MINOR,
    UNSENT_FUNCTIONS_LIMIT,
    UnsentCalls,
    UnsentCount,
)

_DELAY_SECONDS = 0.25
"""Most of these calls leave before this, and the scheduler is told nothing."""


class UnsentCallCounts:
    """``is_changed``: there is something to tell the scheduler. ``due``: when. Calls are known by the ``id`` of an
    object of the caller, which must be alive."""

    def __init__(self, outgoing: Outgoing) -> None:
        self.is_changed = False
        self.due: float | None = None
        self._outgoing = outgoing
        self._functions: dict[int, Function] = {}
        self._told: tuple[UnsentCount, ...] | None = ()
        self._is_supported = True

    def __bool__(self) -> bool:
        """The scheduler counts some."""
        return bool(self._told)

    def add(self, call: int, function: Function) -> None:
        self._functions[call] = function
        self.is_changed = self._is_supported

    def discard(self, call: int) -> None:
        """The call has left or ended. It need not have waited."""
        if self._functions.pop(call, None) is not None:
            self.is_changed = self._is_supported

    def tell_when_due(self, now: float) -> None:
        if self.due is None:
            self.due = now + _DELAY_SECONDS
        elif now >= self.due:
            self.due, self.is_changed = None, False
            counts = self._counts()
            if counts != self._told:
                self._told = counts
                self._outgoing.urgent.append(UnsentCalls(counts))

    def on_welcome(self, minor: int, resumed: bool) -> None:
        """A scheduler that begins a new link counts none, and an old one cannot count them."""
        self._is_supported = minor >= UNSENT_CALLS_SINCE_MINOR
        if not resumed:
            self._told = ()
            self.is_changed = bool(self._functions)
        if not self._is_supported:
            self.is_changed = False

    def repeat(self) -> None:
        """The scheduler may not have received what it was told."""
        self._told, self.is_changed = None, self._is_supported

    def _counts(self) -> tuple[UnsentCount, ...]:
        numbers = Counter(self._functions.values()).most_common(UNSENT_FUNCTIONS_LIMIT)
        return tuple(
            UnsentCount(function.digest, function.name, number, function.definition.module)
            for function, number in numbers
        )
