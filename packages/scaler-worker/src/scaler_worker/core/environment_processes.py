"""Worker processes whose tasks run in an environment: each process belongs to one environment, from its first task on.

A process without a task may get any; one that has run tasks is only for those of the same environment, as it has
imported their packages. Beyond the processes of the slots, as many again may exist, so that clients with different
environments need not replace each other's processes; they share the slots, because no more processes than slots are
busy. Without room for another process, the one that has been idle longest is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scaler_worker.core.prefetch import Prefetcher
from scaler_worker.core.roster import Roster
from scaler_worker.core.starts import Starts
from scaler_worker.core.state import AgentState
from scaler_worker.core.worker_process import WorkerProcess

RETIRE_AFTER_SECONDS = 60.0
"""A process of an environment that has been idle for this long ends; at once if no client needs the environment."""

HOLD_SECONDS = 1.0
"""A process whose environment still has tasks is not replaced before it has run them for this long."""


class EnvironmentProcesses:
    """``end_worker_process`` kills a worker process."""

    def __init__(
        self,
        state: AgentState,
        roster: Roster,
        prefetcher: Prefetcher,
        starts: Starts,
        end_worker_process: Callable[[int], None],
    ) -> None:
        self._queue, self._nodes = state.queue, state.nodes
        self._roster = roster
        self._prefetcher = prefetcher
        self._starts = starts
        self._end_worker_process = end_worker_process
        self._held_until: dict[int, float] = {}

    def fill(self, now: float) -> None:
        """Give every worker process what it needs, and see to it that there are processes for all environments."""
        if self._queue.count:
            self._make_place(now)
            self._fill_idle(now)
            self._start_missing()
        if self._roster.busy and (self._queue.count or self._nodes.waiting):
            self._fill_busy()

    # ---- idle processes --------------------------------------------------------------------------------------------

    def _fill_idle(self, now: float) -> None:
        """Dispatch tasks to idle processes, the next tasks first. If no process for them is idle, others use the slots
        meanwhile."""
        tried: set[int] = set()
        while self._queue.count and not self._roster.is_crowded:
            depth = self._roster.depth_needed(1)
            found = self._next_pair(depth, tried)
            if found is None:
                return
            process, environment, sharers = found
            tried.add(process.number)
            self._starts.lend_slot(process)
            if process.environment is None:
                self._held_until[process.number] = now + HOLD_SECONDS
            run = self._queue.first_in(environment, depth)
            if run is not None and run.options.hosts_actor:
                self._prefetcher.make_actor(process, environment)
            else:
                self._prefetcher.dispatch(process, depth, sharers, environment)

    def _next_pair(self, depth: int, tried: set[int]) -> tuple[WorkerProcess, str, int] | None:
        """An idle process, the environment whose tasks it gets, and the number of processes that share them."""
        for environment in self._queue.environments_waiting(depth):
            suitable = [
                each
                for number, each in sorted(self._roster.idle.items())
                if each.environment in (environment, None) and number not in tried
            ]
            if suitable:
                return min(suitable, key=lambda each: each.environment is None), environment, len(suitable)
        return None

    # ---- busy processes --------------------------------------------------------------------------------------------

    def _fill_busy(self) -> None:
        """Dispatch more tasks only to processes that may run the next ones, while all slots are used: the others become
        idle, and their slots free."""
        roster = self._roster
        if len(roster.busy) > roster.slots + len(roster.blocked):
            return
        depth = roster.depth_needed(0)
        pending = 0 if roster.is_crowded else len(self._pending())
        for process in list(roster.short_of_work.values()):
            if not self._prefetcher.is_short(process):
                continue
            waiting = self._queue.environments_waiting(depth)
            environment = process.environment or ""
            if waiting and roster.is_crowded and waiting[0] != environment:
                continue
            if pending and self._queue.count_in(environment, pending + 1) <= pending:
                continue  # these are for processes that start
            self._prefetcher.dispatch(process, depth, len(roster.short_of_work), environment)

    # ---- processes that start --------------------------------------------------------------------------------------

    def _pending(self) -> list[WorkerProcess]:
        """Return the processes that will soon be able to take tasks of any environment, or leave room for such."""
        return [each for each in self._roster.processes.values() if not each.ready]

    def _start_missing(self) -> None:
        """Start processes if tasks wait although slots are free: no idle process is of their environment."""
        roster = self._roster
        free = roster.slots + len(roster.blocked) - len(roster.busy)
        pending = len(self._pending())
        for environment in self._queue.environments_waiting(roster.depth_needed(1)) if free > 0 else ():
            wanted = self._queue.count_in(environment, free)
            for _ in range(wanted - pending):
                if not self._starts.start_another() and not self._replace_idle(environment, math.inf):
                    return
            pending = max(0, pending - wanted)
            free -= wanted
            if free <= 0:
                return

    def _replace_idle(self, environment: str, now: float) -> bool:
        """End the process of another environment that has been idle longest, unless it may stay until later than
        ``now``. False: there is none."""
        idle = [
            each
            for number, each in self._roster.idle.items()
            if each.environment not in (environment, None) and now >= self._held_until.get(number, 0.0)
        ]
        if not idle:
            return False
        self._end_worker_process(min(idle, key=lambda each: each.idle_since).number)
        return True

    def _make_place(self, now: float) -> None:
        """Free the place of an idle process if the next tasks have no process and none can be added, although tasks of
        its environment wait."""
        roster = self._roster
        waiting = self._queue.environments_waiting(roster.depth_needed(1))
        if not waiting or roster.is_crowded or not roster.idle or self._pending():
            return
        suitable = (each for each in roster.processes.values() if each.environment in (waiting[0], None))
        if any(not each.is_dedicated and not each.blocked for each in suitable):
            return
        if not self._starts.start_another():
            self._replace_idle(waiting[0], now)

    # ---- retiring --------------------------------------------------------------------------------------------------

    def deadlines(self) -> list[float]:
        """Return when idle processes of environments end."""
        needed = frozenset(self._queue.environments.values())
        return [self._retire_at(each, needed) for each in self._idle()]

    def retire(self, now: float) -> None:
        if not self._roster.in_environments:
            return
        needed = frozenset(self._queue.environments.values())
        for process in self._idle():
            if now >= self._retire_at(process, needed):
                self._end_worker_process(process.number)
        self._held_until = {number: until for number, until in self._held_until.items() if now < until}

    def _idle(self) -> list[WorkerProcess]:
        return [each for each in self._roster.in_environments.values() if each.number in self._roster.idle]

    def _retire_at(self, process: WorkerProcess, needed: frozenset[str]) -> float:
        return process.idle_since + (RETIRE_AFTER_SECONDS if process.environment in needed else 0.0)
