"""Totals of functions by module and name, for the scheduler's lifetime: also of functions that no client has any more.

At most ``NAME_LIMIT`` names of the past are kept. Beyond it, the numbers of the name that was dropped longest ago, of
those that no client has now, are added to ``OTHERS``. So the sums never decrease, nor does a row while it is there, and
memory stays bounded. A name that comes back after that begins at zero.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import add

from scaler_protocol.messages import UnsentCount
from scaler_scheduler.core.duration_histogram import DurationHistogram
from scaler_scheduler.core.function_keys import FunctionKey, key_of
from scaler_scheduler.core.function_loads import FunctionLoad, together
from scaler_scheduler.core.function_numbers import FunctionNumbers

NAME_LIMIT = 1000
"""Names of the past, with ``OTHERS``; more only if clients have functions of all of them."""

CURRENT_LIMIT = 10_000
"""Names at a time. The functions of further ones count under ``OTHERS``: one client may have very many."""


OTHERS = FunctionKey("(other functions)")


@dataclass(slots=True)
class FunctionTotal:
    """``digest``: of a function of this name. ``total_us`` and ``cpu_us``: of all executions together.
    ``parts_us``: as ``FunctionLoad.parts``. ``durations`` and ``waits``: of each. ``stays``: monitors must show
    it, because it includes functions that no client has any more, or many functions."""

    digest: bytes
    stays: bool = False
    unfinished: int = 0
    finished: int = 0
    succeeded: int = 0
    canceled: int = 0
    total_us: float = 0.0
    cpu_us: float = 0.0
    parts_us: tuple[float, ...] = (0.0,) * 5
    durations: DurationHistogram = field(default_factory=DurationHistogram)
    waits: DurationHistogram = field(default_factory=DurationHistogram)

    def add(self, load: FunctionLoad) -> None:
        unfinished, finished, succeeded, canceled, total_us = load.figures()
        self.unfinished += unfinished
        if not finished and not total_us:
            return  # a client may have very many functions that have not run yet
        self.finished += finished
        self.succeeded += succeeded
        self.canceled += canceled
        self.total_us += total_us
        self.cpu_us += load.cpu_us
        self.parts_us = tuple(map(add, self.parts_us, load.parts()))
        self.durations.merge(load.durations)
        self.waits.merge(load.waits)

    def merge(self, other: FunctionTotal) -> None:
        self.unfinished += other.unfinished
        self.finished += other.finished
        self.succeeded += other.succeeded
        self.canceled += other.canceled
        self.total_us += other.total_us
        self.cpu_us += other.cpu_us
        self.parts_us = tuple(map(add, self.parts_us, other.parts_us))
        self.durations.merge(other.durations)
        self.waits.merge(other.waits)

    def copy(self) -> FunctionTotal:
        copied = FunctionTotal(self.digest, self.stays)
        copied.merge(self)
        return copied


class FunctionTotals:
    """The functions that no client has any more. ``numbers``: of these and of those that clients have."""

    def __init__(self) -> None:
        self._past: dict[FunctionKey, FunctionTotal] = {}
        self._idle: OrderedDict[FunctionKey, None] = OrderedDict()
        """Names of the past that no client has now, the one that was dropped longest ago first."""
        self._users: Counter[FunctionKey] = Counter()
        self.numbers = FunctionNumbers()

    def begin(self, load: FunctionLoad) -> None:
        """A client has the function from now on."""
        self._users[load.key] += 1
        self._idle.pop(load.key, None)

    def keep(self, load: FunctionLoad) -> None:
        """No client has the function any more. Tasks of it that have not ended are not counted."""
        name = load.key
        total = self._past.setdefault(name, FunctionTotal(load.digest))
        total.add(load)
        total.unfinished, total.stays = 0, True
        self._users[name] -= 1
        if self._users[name] <= 0:
            del self._users[name]
            self._idle[name] = None
        self._make_room()

    def with_current(
        self, loads: Iterable[FunctionLoad], unsent: Iterable[UnsentCount] = ()
    ) -> dict[FunctionKey, FunctionTotal]:
        """Return the totals by name, together with the functions that clients have, and with the calls that have not
        left their clients."""
        totals = dict(self._past)
        further = []
        for load in loads:
            if len(totals) < CURRENT_LIMIT or load.key in totals:
                _current(totals, self._past, load.key, load.digest).add(load)
            else:
                further.append(load)
        if further:
            _current(totals, self._past, OTHERS, further[0].digest).add(together(further))
        for each in unsent:
            name = key_of(each.name, each.module)
            name = name if len(totals) < CURRENT_LIMIT or name in totals else OTHERS
            _current(totals, self._past, name, each.digest).unfinished += each.count
        return totals

    def _make_room(self) -> None:
        """Add the oldest names to the others. Names that clients have stay: their rows would decrease."""
        while len(self._past) > NAME_LIMIT and self._idle:
            name, _ = self._idle.popitem(last=False)
            total = self._past.pop(name)
            self._past.setdefault(OTHERS, FunctionTotal(total.digest, stays=True)).merge(total)


def _current(
    totals: dict[FunctionKey, FunctionTotal], past: dict[FunctionKey, FunctionTotal], name: FunctionKey, digest: bytes
) -> FunctionTotal:
    """The total of the name, which may be changed: those of the past are copied."""
    total = totals.get(name)
    if total is None:
        total = totals[name] = FunctionTotal(digest, stays=name == OTHERS)
    elif total is past.get(name):
        total = totals[name] = total.copy()
    return total
