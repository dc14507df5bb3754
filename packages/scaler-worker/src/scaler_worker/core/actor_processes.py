"""Worker processes that are dedicated to actors: each makes one, runs its calls, and is killed when it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from typing import Any

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import ActorsReady, ObjectKey, Status
from scaler_worker.board import DISPATCHED, DispatchedRun, Harvest
from scaler_worker.core.actors import HostedActor, references_of
from scaler_worker.core.columns import columns_of
from scaler_worker.core.prefetch import Prefetcher
from scaler_worker.core.roster import Roster
from scaler_worker.core.state import AgentState
from scaler_worker.core.worker_process import WorkerProcess

_DISPATCH_BYTES = 512 * 1024
"""Calls beyond this size are sent to the process in a message of their own."""


def _call_of(entry: DispatchedRun, sequence: int) -> TaskRun:
    index = sequence - entry.first_sequence
    return entry.run.slice(index, index + 1)


class ActorProcesses:
    """``end_worker_process`` kills a worker process. ``place_of`` returns the worker that the results of a process
    name, or None while no monitor watches."""

    def __init__(
        self,
        state: AgentState,
        roster: Roster,
        prefetcher: Prefetcher,
        end_worker_process: Callable[[int], None],
        place_of: Callable[[WorkerProcess], int | None],
    ) -> None:
        self._state = state
        self._actors = state.actors
        self._roster = roster
        self._prefetcher = prefetcher
        self._end_worker_process = end_worker_process
        self._place_of = place_of

    # ---- starting --------------------------------------------------------------------------------------------------

    def dedicate(self, process: WorkerProcess, run: TaskRun) -> None:
        """Have an idle process make the actor of this task."""
        actor = HostedActor(run, process.number)
        self._actors.add(actor)
        process.actor, process.is_dedicated = actor, True

    def serve(self, may_start: bool) -> None:
        """Give processes the calls for which they have room."""
        for actor in list(self._actors.due) if may_start else ():
            self._give_calls(actor)

    def _give_calls(self, actor: HostedActor) -> None:
        process = self._roster.processes[actor.process]
        assert process.board is not None
        room = process.board.room()
        if process.board.broken is not None:
            self._end_worker_process(process.number)
        while room > 0 and actor.calls:
            runs, count = self._take_calls(actor, room)
            room -= count
            self._prefetcher.give(process, runs)
        if not actor.calls:
            self._actors.due.pop(actor, None)

    def _take_calls(self, actor: HostedActor, room: int) -> tuple[list[TaskRun], int]:
        """The next calls, in one message, and how many there are."""
        runs: list[TaskRun] = []
        count = size = 0
        while count < room and size < _DISPATCH_BYTES and actor.calls:
            run = actor.calls.popleft()
            if run.count > room - count:
                actor.calls.appendleft(run.slice(room - count, run.count))
                run = run.slice(0, room - count)
            runs.append(run)
            count += run.count
            size += run.payload_bytes
        return runs, count

    def take_constructed(self, process: WorkerProcess, harvest: Harvest, now: float) -> None:
        """Take the results of the constructor out of these: its success is not a result of the anchor, which
        continues."""
        actor = process.actor
        if actor is None or actor.is_live or not (harvest.runs or harvest.interrupted):
            return
        if not harvest.runs or harvest.runs[0].status(0) != Status.SUCCESS:
            self._release(process, actor)
            return
        harvest.runs.clear()
        assert process.board is not None
        actor.is_live, actor.started_at = True, process.board.started
        process.board.unordered = actor.run.options.max_concurrency > 1
        if process.board.output is not None:
            process.board.output.on_actor_made()
        if process.ending:
            self._end(actor, process, Status.CANCELLED, b"", now)
            self._end_worker_process(process.number)
        else:
            self._state.unsent.append(ActorsReady(tuple(columns_of((), [actor.name]))))

    def on_withdrawn(self, process: WorkerProcess) -> None:
        """A task of the process was cancelled before it started. Before the actor is made, that is its constructor."""
        if process.actor is not None and not process.actor.is_live:
            self._release(process, process.actor)

    def _release(self, process: WorkerProcess, actor: HostedActor) -> None:
        """Free the process for other tasks: there will be no such actor."""
        self._actors.forget(actor)
        process.actor, process.is_dedicated = None, False

    # ---- lost objects ----------------------------------------------------------------------------------------------

    def hold_back(self, lost: Set[ObjectKey]) -> list[TaskRun]:
        """Objects are lost: calls that need them and have not started wait until these are here again, and so do later
        calls of their callers. Returns the calls that lack objects."""
        lacking: list[TaskRun] = []
        for process in self._roster.processes.values():
            actor: HostedActor | None = process.actor
            if actor is not None and actor.is_live and not actor.has_ended:
                lacking += self._actors.hold_back(actor, self._take_back(process, lost), lost)
        return lacking

    def _take_back(self, process: WorkerProcess, lost: Set[ObjectKey]) -> dict[bytes, list[TaskRun]]:
        """Take back the calls that need lost objects and have not started, and the later ones of their callers. The
        newest ones come first: none may start while an earlier one is taken back."""
        board = process.board
        assert board is not None
        found: dict[bytes, list[tuple[DispatchedRun, int]]] = {}
        for entry, sequence, cell in process.open_sequences():
            needs_lost = cell == DISPATCHED and not lost.isdisjoint(references_of(_call_of(entry, sequence)))
            if needs_lost or entry.session in found:
                found.setdefault(entry.session, []).append((entry, sequence))
        returned: dict[bytes, list[TaskRun]] = {}
        for session, calls in found.items():
            for entry, sequence in reversed(calls):
                if board.withdraw(sequence):
                    entry.unfinished -= 1
                    returned.setdefault(session, []).insert(0, _call_of(entry, sequence))
        self._roster.settle(process)
        return returned

    # ---- ending ----------------------------------------------------------------------------------------------------

    def cancel(self, session: bytes, task: int, attempt: int, now: float) -> None:
        """End the actor that this task has made. A constructor that still runs is interrupted, like any task."""
        actor = self._actors.get(session, task)
        if actor is not None and actor.is_live and attempt in (0, actor.run.attempt):
            self._end(actor, self._roster.processes[actor.process], Status.CANCELLED, b"", now)
            self._end_worker_process(actor.process)

    def on_died(self, process: WorkerProcess, certificate: dict[str, Any], now: float) -> None:
        """The process has ended. The tasks that it had have been ended or put back."""
        actor: HostedActor | None = process.actor
        if actor is None or actor.has_ended:
            return
        if not actor.is_live:
            self._actors.forget(actor)
            return
        payload = json.dumps({**certificate, "task": actor.run.function_name}).encode()
        self._end(actor, process, Status.PROCESSOR_DIED, payload, now)

    def _end(self, actor: HostedActor, process: WorkerProcess, status: Status, payload: bytes, now: float) -> None:
        """End the anchor with this status, and fail the calls that have not reached the process. The anchor has lasted
        as long as the actor."""
        actor.has_ended = True
        self._actors.forget(actor)
        duration_us = int(1e6 * max(0.0, now - actor.started_at))
        self._state.rows.add(*actor.name, status, payload, duration_us, self._place_of(process))
        unready: dict[bytes, dict[tuple[int, int], None]] = {}
        for each in actor.take_calls():
            if not each.is_ready:
                unready.setdefault(each.run.session, {})[each.run.first_task, each.run.attempt] = None
            self._state.rows.add_run(each.run, Status.PROCESSOR_DIED, payload)
        for session, tasks in unready.items():
            self._state.objects.remove_waiting(session, tasks)
