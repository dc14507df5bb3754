"""Totals of functions by module and name, for the scheduler's lifetime: also of functions that no client has any more.

A name that is not among the first ``NAME_LIMIT`` to be dropped counts under ``OTHERS``, with all others of its kind. So
no number ever decreases, and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import add
from typing import NamedTuple

from scaler_protocol.messages import UnsentCount
from scaler_scheduler.core.duration_histogram import DurationHistogram
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.function_numbers import FunctionNumbers

NAME_LIMIT = 1000
NAME_LIMIT_CHARACTERS = 1000
CURRENT_LIMIT = 10_000
"""Names at a time. The functions of further ones count under ``OTHERS``: one client may have very many."""


class FunctionKey(NamedTuple):
    """Functions of one name in different modules are different ones. ``module`` is empty if it is not known."""

    name: str
    module: str = ""


OTHERS = FunctionKey("(other functions)")


@dataclass(slots=True)
class FunctionTotal:
    """``digest``: of a function of this name. ``total_us`` and ``cpu_us``: of all executions together.
    ``parts_us``: as ``FunctionLoad.parts``. ``durations`` and ``waits``: of each. ``stays``: it includes functions that
    no client has any more."""

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

    def copy(self) -> FunctionTotal:
        copied = FunctionTotal(
            self.digest, self.stays, self.unfinished, self.finished, self.succeeded, self.canceled, self.total_us,
            self.cpu_us, self.parts_us,
        )  # fmt: skip
        copied.durations.merge(self.durations)
        copied.waits.merge(self.waits)
        return copied


class FunctionTotals:
    """The functions that no client has any more. ``numbers``: of these and of those that clients have."""

    def __init__(self) -> None:
        self._past: dict[FunctionKey, FunctionTotal] = {}
        self.numbers = FunctionNumbers()

    def keep(self, load: FunctionLoad) -> None:
        """No client has the function any more. Tasks of it that have not ended are not counted."""
        total = self._past.setdefault(self._name_of(load), FunctionTotal(load.digest))
        total.add(load)
        total.unfinished, total.stays = 0, True

    def with_current(
        self, loads: Iterable[FunctionLoad], unsent: Iterable[UnsentCount] = ()
    ) -> dict[FunctionKey, FunctionTotal]:
        """Return the totals by name, together with the functions that clients have, and with the calls that have not
        left their clients."""
        totals = dict(self._past)
        for load in loads:
            self._current(totals, load).add(load)
        for each in unsent:
            self._current(totals, each).unfinished += each.count
        return totals

    def _current(self, totals: dict[FunctionKey, FunctionTotal], load: FunctionLoad | UnsentCount) -> FunctionTotal:
        """The total of its name, which may be changed."""
        name = self._name_of(load)
        if len(totals) >= CURRENT_LIMIT and name not in totals:
            name = OTHERS
        total = totals.get(name)
        if total is None:
            total = totals[name] = FunctionTotal(load.digest)
        elif total is self._past.get(name):
            total = totals[name] = total.copy()
        return total

    def _name_of(self, load: FunctionLoad | UnsentCount) -> FunctionKey:
        name = FunctionKey(load.name[:NAME_LIMIT_CHARACTERS], load.module[:NAME_LIMIT_CHARACTERS])
        return name if name in self._past or len(self._past) < NAME_LIMIT else OTHERS
