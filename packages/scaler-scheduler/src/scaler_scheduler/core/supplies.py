"""The facts that scaling compares: the tasks that wait, the workers that run or can be started, and their recent
past."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scaler_protocol.messages import ManagerReport

_SHORTEST_SECONDS = 1e-3


@dataclass(frozen=True, slots=True)
class Demand:
    """Tasks that wait. ``needs``: the amounts of the capabilities that each requires, in millionths. ``seconds``: how
    long all of them take one worker."""

    needs: Sequence[tuple[str, int]]
    tasks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Supply:
    """Workers that run or can be started. ``capabilities``: of each worker, in millionths. ``maximum``: how many may
    run. ``cost``: of one worker for an hour; negative: it is paid for anyway. ``workers``: how many run or start.
    ``occupied``: how many the tasks that they already have keep occupied for longer than the target time. ``busy``: how
    many had tasks recently, on average."""

    name: str
    capabilities: Mapping[str, int]
    minimum: int
    maximum: int
    cost: float
    workers: int = 0
    occupied: int = 0
    busy: float = 0.0


@dataclass(slots=True)
class RecentNeeds:
    """The needs of the last ``cool_down_seconds``. Their highest counts, so a gap in the load stops no worker."""

    cool_down_seconds: float
    _needs: deque[tuple[float, int]] = field(default_factory=deque)  # the numbers fall from left to right

    def highest(self, workers: int, now: float) -> int:
        """Note a need. Returns the highest of the cool-down time."""
        while self._needs and self._needs[-1][1] <= workers:
            self._needs.pop()
        self._needs.append((now, workers))
        while self._needs[0][0] <= now - self.cool_down_seconds and len(self._needs) > 1:
            self._needs.popleft()
        return self._needs[0][1]


@dataclass(slots=True)
class RecentlyBusy:
    """The mean number of busy workers. It forgets within ``seconds``, and at once when no worker is busy: then the
    cool-down time alone decides how long workers stay."""

    seconds: float
    mean: float = 0.0
    _at: float | None = None

    def note(self, busy: int, now: float) -> float:
        """``busy``: how many are at the moment. Returns the mean."""
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        if not busy:
            self.mean = 0.0
        self.mean += (busy - self.mean) * (1 - math.exp(-passed / max(self.seconds, _SHORTEST_SECONDS)))
        return self.mean


@dataclass(slots=True)
class WorkerManager:
    """A worker manager that is connected. ``needed``: how many workers the tasks need, by the last decision;
    ``ordered``: how many it was told to run; ``keeping``: how many of its agents stay for their values alone;
    ``looked_at``: for how many of these it has been found out, since the last one left, that no other can keep them;
    ``claims``: when each session that has asked for its name did so first, if it is not refused yet;
    ``is_replaced``: it was silent, and another one has its name."""

    report: ManagerReport
    recent_needs: RecentNeeds
    recently_busy: RecentlyBusy
    needed: int = 0
    ordered: int = 0
    keeping: int = 0
    looked_at: int = 0
    reported_at: float = 0.0
    is_replaced: bool = False
    claims: dict[bytes, float] = field(default_factory=dict)
    _decisions: int = 0
    _second: int = -1

    def may_decide(self, most: int, now: float) -> bool:
        """False if there were ``most`` decisions in this second."""
        if int(now) != self._second:
            self._second, self._decisions = int(now), 0
        self._decisions += 1
        return self._decisions <= most
