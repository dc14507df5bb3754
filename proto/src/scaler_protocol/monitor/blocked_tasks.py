"""Waiting tasks that no worker can run at present, so that no estimate may count them. Pure.

The groups of waiting tasks name their function and client, but not their map or graph. Those of a map or graph are
known only if it has all waiting tasks of its client (a map: of its client and function), or if none of these can run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from scaler_protocol.monitor.format import printable
from scaler_protocol.monitor.messages import WaitGroup
from scaler_protocol.monitor.reasons import (
    LIMIT_TAKEN_BY_ACTORS,
    MISSING_CAPABILITIES,
    NO_AVAILABLE_WORKER,
    NO_WORKERS,
    RESULTS_MISSING,
)

_REASONS = {
    NO_WORKERS: "no worker is connected",
    MISSING_CAPABILITIES: "no worker has {demand}",
    NO_AVAILABLE_WORKER: "suitable workers are {states}",
    LIMIT_TAKEN_BY_ACTORS: "actors hold the workers that their group may use",
}


class WaitingTasks(NamedTuple):
    """Waiting tasks that have something in common. ``blocked``: no worker can run them; ``dependent``: they wait for
    results of other tasks. ``reason``: why most of the blocked ones cannot run."""

    total: int = 0
    blocked: int = 0
    dependent: int = 0
    reason: str = ""


NONE = WaitingTasks()


def waiting_by(
    waits: Iterable[WaitGroup], keys_of: Callable[[WaitGroup], Iterable[Hashable]]
) -> dict[Hashable, WaitingTasks]:
    """Return the waiting tasks by each of the keys of their groups. Those that have no blocked tasks are left out."""
    groups: dict[Hashable, list[WaitGroup]] = {}
    for each in waits:
        for key in keys_of(each):
            groups.setdefault(key, []).append(each)
    found = {key: _summed(members) for key, members in groups.items()}
    return {key: each for key, each in found.items() if each.blocked}


def _summed(groups: Iterable[WaitGroup]) -> WaitingTasks:
    total = dependent = 0
    reasons: Counter[str] = Counter()
    for each in groups:
        total += each.count
        dependent += each.count if each.reason.casefold().startswith(RESULTS_MISSING) else 0
        reason = _why_blocked(each)
        if reason:
            reasons[reason] += each.count
    most = reasons.most_common(1)
    return WaitingTasks(total, reasons.total(), dependent, most[0][0] if most else "")


def _why_blocked(group: WaitGroup) -> str:
    """Empty: a worker can run these tasks, as soon as it is their turn."""
    reason = group.reason.casefold()
    for beginning, text in _REASONS.items():
        if reason.startswith(beginning):
            demand = printable(group.demand) or "the capabilities that they need"
            return text.format(demand=demand, states=printable(group.reason[len(beginning) :]).strip(" ."))
    return ""
