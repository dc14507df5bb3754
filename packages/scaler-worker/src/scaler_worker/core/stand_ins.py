"""Worker processes that run nested tasks while the tasks of workers are blocked: whose they are, for people."""

from __future__ import annotations

from scaler_worker.core.roster import Roster


def stand_ins(roster: Roster) -> dict[int, list[int]]:
    """The process ids of spare worker processes by the slot of the worker in whose row they count: one whose task is
    blocked, or if there is none, any."""
    spares = sorted(each.number for each in roster.processes.values() if each.slot is None and each.pid)
    owners = sorted(each.slot for each in roster.blocked.values() if each.slot is not None)
    owners = owners or sorted(each.slot for each in roster.processes.values() if each.slot is not None)
    found: dict[int, list[int]] = {}
    for index, number in enumerate(spares if owners else ()):
        found.setdefault(owners[index % len(owners)], []).append(roster.processes[number].pid)
    return found
