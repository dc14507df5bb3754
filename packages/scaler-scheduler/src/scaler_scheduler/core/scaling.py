"""Computes how many workers each worker manager should run.

Everything here is a function of plain values, so simulated loads can use it without a scheduler. The tasks that wait
are ``Demand``, one for each set of required capabilities; the workers that exist, and those that can be started, are
``Supply``, one for each manager and one for each agent without a manager.

A demand needs as many workers as finish its tasks within the target time, and at least one. It takes them from the
supplies that have its capabilities: first from workers that run anyway, then from the cheapest manager. Demands that
fewest supplies can serve choose first. The result follows the load upwards at once, and downwards when the load
has been lower for the cool-down time (``RecentNeeds``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scaler_scheduler.core.supplies import Demand, Supply

BUSY_SHARE = 0.9
"""Workers stay while fewer of them would be busy for more than this share of the time: they would soon be started
again."""

_NEGLIGIBLE = 0.1
"""A part of a worker that needs no further worker."""


def needs_of(demands: Sequence[Demand], supplies: Sequence[Supply], target_seconds: float) -> dict[str, int]:
    """The number of workers that each supply should have, by its name."""
    taken = {supply.name: min(supply.occupied, supply.maximum) for supply in supplies}
    cheapest_first = sorted(supplies, key=lambda each: (each.cost, each.name))
    for demand in sorted(demands, key=lambda each: (sum(can_serve(one, each.needs) for one in supplies), each.needs)):
        missing = min(demand.tasks, max(1, math.ceil(demand.seconds / target_seconds)))
        for supply in cheapest_first:
            if can_serve(supply, demand.needs):
                given = min(missing, supply.maximum - taken[supply.name])
                taken[supply.name] += given
                missing -= given
    return {supply.name: _bounded(supply, max(taken[supply.name], _kept(supply))) for supply in supplies}


def can_serve(supply: Supply, needs: Sequence[tuple[str, int]]) -> bool:
    """Each of its workers has the required amounts."""
    return all(supply.capabilities.get(name, 0) >= amount for name, amount in needs)


def _kept(supply: Supply) -> int:
    return min(supply.workers, math.ceil(supply.busy / BUSY_SHARE - _NEGLIGIBLE))


def _bounded(supply: Supply, workers: int) -> int:
    return max(supply.minimum, min(workers, supply.maximum))
