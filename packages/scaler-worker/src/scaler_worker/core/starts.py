"""The number of worker processes: as many as slots, and spare ones while tasks are blocked."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from scaler_protocol.effects import Log
from scaler_protocol.process_names import nested_name
from scaler_worker.core.effects import Kill, StartWorkerProcess
from scaler_worker.core.outbox import Outbox
from scaler_worker.core.roster import Roster
from scaler_worker.core.worker_process import WorkerProcess

RESTART_AFTER_SECONDS = 1.0
RETIRE_AFTER_SECONDS = 10.0
REFUSALS_LIMIT = 3
"""After so many attempts in a row that failed, there is no room for another process."""


class Starts:
    def __init__(
        self,
        agent: str,
        names: tuple[str, ...],
        roster: Roster,
        outbox: Outbox,
        process_limit: int = 0,
        fixed_slots: bool = False,
        max_tasks_per_worker: int = 0,
    ) -> None:
        self.process_limit = process_limit or len(names) * 4 + 128
        self._fixed_slots = fixed_slots
        self._max_tasks_per_worker = max_tasks_per_worker
        self._agent = agent
        self._names = names
        self._roster = roster
        self._outbox = outbox
        self._numbers = 0
        self.failures = 0  # of worker processes, since a task has ended in one
        self.after = 0.0  # nothing is started before
        self.trouble = ""
        """The reason why no process could be started the last time; empty if one was."""
        self._refusals = 0  # in a row
        self._lacks_room = False

    # ---- what happens to them --------------------------------------------------------------------------------

    def is_forked(self) -> None:
        self.trouble, self._refusals = "", 0

    def is_ready(self) -> None:
        if len(self._roster.processes) >= self._roster.slots:
            self._lacks_room = False

    def not_started(self, process: WorkerProcess, text: str, now: float) -> None:
        """Nothing is asked for before a while. Told once, until all slots have theirs."""
        self.after = now + RESTART_AFTER_SECONDS
        self.trouble = text
        self._refusals += 1
        if not self._lacks_room:
            self._lacks_room = True
            again = f"it is tried again every {RESTART_AFTER_SECONDS:g} s"
            self._outbox.add(Log("ERROR", f"{process.name} cannot be started, {again}: {text}"))

    def failed(self, certificate: dict[str, Any], now: float) -> None:
        """Delay the next start: processes that die before they look at a task would be started in an endless loop."""
        self.failures += 1
        if self.failures >= 3:
            self.after = now + RESTART_AFTER_SECONDS
            self._outbox.add(Log("ERROR", f"A worker process ended before it ran anything: {json.dumps(certificate)}"))

    def fill_slot(self, slot: int | None) -> None:
        """A spare worker process becomes the worker of a slot that lost its own, unless the slot has devices, which
        the spare process does not have."""
        if self._fixed_slots:
            return
        spare = next((each for each in self._roster.processes.values() if each.slot is None), None)
        if slot is not None and spare is not None:
            spare.slot = spare.place = slot
            spare.name = self._names[slot]

    # ---- starting --------------------------------------------------------------------------------------------

    def start_missing(self, eligible: int, now: float) -> bool:
        """More than slots only while tasks are blocked: as many as may use lent slots and find none idle
        (``eligible`` tasks wait for these), and one that is ready for the next. False: all are blocked and no more may,
        or can, be started, so that nothing would ever go on."""
        if now < self.after:
            return not (eligible and self._refusals >= REFUSALS_LIMIT and self._are_all_blocked())
        self.after = 0.0
        roster = self._roster
        for _ in range(self._missing_slots()):
            self._start()
        missing = min(roster.slots + len(roster.blocked) - len(roster.processes), eligible)
        while missing > 0 and len(roster.processes) < self.process_limit:
            self._start()
            missing -= 1
        if missing > 0 and self._are_all_blocked():
            return False
        if roster.blocked and len(roster.processes) == len(roster.busy) < self.process_limit:
            self._start()  # ahead of the next task that blocks
        return True

    def start_another(self) -> bool:
        """Start one more than there are slots, for tasks of another environment than those of idle processes. False:
        there are enough, or it would lack the devices of a slot."""
        limit = min(self.process_limit, 2 * self._roster.slots + len(self._roster.blocked))
        if self._fixed_slots or self.after or len(self._roster.processes) >= limit:
            return False
        self._start()
        return True

    def lend_slot(self, process: WorkerProcess) -> None:
        """A spare process is to run a task: it becomes the worker of a slot whose own process is idle, which becomes
        a spare one."""
        if process.slot is not None or self._fixed_slots:
            return
        owner = next((each for each in self._roster.idle.values() if each.slot is not None), None)
        if owner is not None:
            process.slot, owner.slot = owner.slot, None
            process.place, owner.place = owner.place, process.place
            process.name, owner.name = owner.name, process.name

    def _missing_slots(self) -> int:
        """Return how many slots have neither a worker process of their own nor a spare one."""
        processes = self._roster.processes
        if not self._fixed_slots:
            return max(0, self._roster.slots - len(processes))
        return self._roster.slots - sum(1 for each in processes.values() if each.slot is not None)

    def _are_all_blocked(self) -> bool:
        return len(self._roster.blocked) == len(self._roster.processes)

    def _start(self) -> None:
        taken = [each.slot for each in self._roster.processes.values()]
        slot = next((index for index in range(self._roster.slots) if index not in taken), None)
        place = slot if slot is not None else self._free_place()
        name = self._names[slot] if slot is not None else nested_name(self._agent, place - len(self._names) + 1)
        process = WorkerProcess(self._numbers, slot, name)
        process.place = place
        process.task_limit = self._max_tasks_per_worker
        self._roster.add(process)
        self._numbers += 1
        self._outbox.add(StartWorkerProcess(process.number, name))

    def _free_place(self) -> int:
        """Choose the place of a spare process: the first one after the workers that no other process has."""
        taken = {each.place for each in self._roster.processes.values()}
        return next(place for place in count(self._roster.slots) if place not in taken)

    # ---- spare ones ------------------------------------------------------------------------------------------

    def deadlines(self, accepting: bool) -> list[float]:
        times = [each.idle_since + RETIRE_AFTER_SECONDS for each in self._superfluous()]
        return [*times, self.after] if self.after and accepting else times

    def retire(self, now: float) -> None:
        if len(self._roster.processes) <= self._roster.slots:
            return
        for process in self._superfluous():
            if now >= process.idle_since + RETIRE_AFTER_SECONDS:
                process.end()
                self._roster.sort(process)
                self._outbox.add(Kill(process.number))

    def _superfluous(self) -> list[WorkerProcess]:
        """Spare worker processes, but for the one that is ready for the next task while others block."""
        spares = [each for each in self._roster.idle.values() if each.slot is None and not each.environment]
        return spares[1:] if self._roster.blocked else spares
