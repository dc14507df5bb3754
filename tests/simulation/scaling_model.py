"""A model of a cluster that scales: a load curve, workers that take time to start, and the decisions of the scheduler.

Work is a fluid: ``arrivals`` are seconds of work per second, in steps of ``STEP_SECONDS``. The clairvoyant knows the
whole curve. It does each piece of work evenly within the target time after its arrival, keeps a worker through a gap
when starting another one would cost more, and pays for each start as long as a start takes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from scaler_scheduler.core.scaling import needs_of
from scaler_scheduler.core.supplies import Demand, RecentlyBusy, RecentNeeds, Supply

STEP_SECONDS = 2.0
TARGET_SECONDS = 60.0
COOL_DOWN_SECONDS = 20.0
START_SECONDS = 10.0
MAXIMUM = 64


@dataclass(frozen=True, slots=True)
class Outcome:
    """``cost``: worker seconds, starts included. ``latest_seconds``: the longest that work waited. ``workers``: by
    step."""

    cost: float
    latest_seconds: float
    workers: tuple[int, ...]

    def reversals(self, seconds: float) -> int:
        """How often the number of workers rose again within ``seconds`` after it had fallen below what it then was."""
        steps = round(seconds / STEP_SECONDS)
        fallen = [at for at in range(1, len(self.workers)) if self.workers[at] < self.workers[at - 1]]
        return sum(max(self.workers[at : at + steps]) >= self.workers[at - 1] for at in fallen)


def curve(chance: random.Random, steps: int, kinds: Sequence[str]) -> list[float]:
    """Seconds of work that arrive per second; on average, at most half of what MAXIMUM workers can do."""
    kind = chance.choice(kinds)
    level = chance.uniform(1.0, MAXIMUM / 2)
    if kind == "steady":
        return [level] * steps
    if kind == "ramp":
        top = chance.uniform(1.0, MAXIMUM / 2)
        return [level + (top - level) * step / steps for step in range(steps)]
    if kind == "wave":
        period = chance.uniform(600.0, 3600.0) / STEP_SECONDS
        return [level * (1 + math.sin(2 * math.pi * step / period)) for step in range(steps)]
    if kind == "steps":
        levels = [chance.uniform(0.0, MAXIMUM / 2) for _ in range(5)]
        return [levels[5 * step // steps] for step in range(steps)]
    arrivals = [0.0] * steps
    for _ in range(chance.randint(1, 4)):
        arrivals[chance.randrange(steps // 2)] += chance.uniform(300.0, MAXIMUM * 300.0) / STEP_SECONDS
    return arrivals


def scale(arrivals: Sequence[float], task_seconds: float) -> Outcome:
    """What the scheduler's decisions lead to."""
    recent, busy_workers = RecentNeeds(COOL_DOWN_SECONDS), RecentlyBusy(COOL_DOWN_SECONDS / 2)
    queue, running, starting = 0.0, 0, [0] * round(START_SECONDS / STEP_SECONDS)
    cost, latest, workers = 0.0, 0, []
    arrived = 0.0
    oldest, upto = 0, 0.0  # the step whose work is being done, and the work of all steps up to it
    for step in range(len(arrivals) + round(20 * TARGET_SECONDS / STEP_SECONDS)):
        queue += arrivals[step] * STEP_SECONDS if step < len(arrivals) else 0.0
        arrived += arrivals[step] * STEP_SECONDS if step < len(arrivals) else 0.0
        running += starting.pop(0)
        busy = min(running, math.ceil(queue / task_seconds))
        queue = max(0.0, queue - running * STEP_SECONDS)
        now = step * STEP_SECONDS
        present = running + sum(starting)
        wanted = _wanted(recent, queue, task_seconds, present, busy, busy_workers.note(busy, now), now)
        starting.append(max(0, wanted - present))
        running -= max(0, min(present - wanted, running - busy))
        workers.append(running + sum(starting))
        cost += workers[-1] * STEP_SECONDS
        while oldest < len(arrivals) and upto + arrivals[oldest] * STEP_SECONDS <= arrived - queue + 1e-6:
            upto += arrivals[oldest] * STEP_SECONDS
            oldest += 1
        latest = max(latest, step - oldest if oldest < len(arrivals) else 0)
        if step >= len(arrivals) and not queue and not workers[-1]:
            break  # nothing happens any more
    return Outcome(cost, latest * STEP_SECONDS, tuple(workers))


def _wanted(
    recent: RecentNeeds, queue: float, task_seconds: float, present: int, busy: int, mean_busy: float, now: float
) -> int:
    occupied = busy if task_seconds >= TARGET_SECONDS else min(busy, math.ceil(busy * task_seconds / TARGET_SECONDS))
    demands = [Demand((), math.ceil(queue / task_seconds), queue)] if queue else []
    supply = Supply("cloud", {}, 0, MAXIMUM, 1.0, present, occupied, mean_busy)
    return recent.highest(needs_of(demands, [supply], TARGET_SECONDS)["cloud"], now)


def clairvoyant_cost(arrivals: Sequence[float]) -> float:
    """Worker seconds of someone who knows the curve."""
    window = round(TARGET_SECONDS / STEP_SECONDS)
    padded = [0.0] * window + list(arrivals) + [0.0] * window
    total, needed = 0.0, []
    for step in range(window, len(padded)):
        total += padded[step] - padded[step - window]
        needed.append(math.ceil(round(total / window, 9)))
    return _cost_of_workers(needed)


def _cost_of_workers(needed: Sequence[int]) -> float:
    """Of workers of which as many run as are needed: each is started again after each gap that lasts longer than a
    start. The last one that is needed is the first to stop."""
    cost, before = 0.0, 0
    idle_since: dict[int, int] = {}  # by worker, if it has run before
    for step, count in enumerate(needed):
        cost += count * STEP_SECONDS
        for worker in range(before, count):
            gap = (step - idle_since[worker]) * STEP_SECONDS if worker in idle_since else START_SECONDS
            cost += min(gap, START_SECONDS)
        for worker in range(count, before):
            idle_since[worker] = step
        before = count
    return cost
