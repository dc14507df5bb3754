"""The actors of this host, and what waits for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Set

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import ObjectKey, TaskColumn
from scaler_worker.core.columns import columns_of
from scaler_worker.core.nodes import Named
from scaler_worker.core.queue import without_tasks

ENDED_TEXT = b"The actor has ended."


class WaitingCalls:
    """Calls that are not at the process of their actor yet. ``is_ready``: the objects that they need are here, or have
    never been missing."""

    __slots__ = ("run", "is_ready")

    def __init__(self, run: TaskRun, is_ready: bool) -> None:
        self.run = run
        self.is_ready = is_ready


class HostedActor:
    """``run`` is the task that makes it, its anchor. ``process`` is the number of its worker process. ``is_live``: its
    constructor has returned. ``calls`` may start, in this order. Those that lack objects, by session and number in
    ``unready``, hold back the later ones of their callers: ``held`` has both, in order, by caller."""

    def __init__(self, run: TaskRun, process: int) -> None:
        self.run = run
        self.name: Named = (run.session, run.first_task, run.attempt)
        self.process = process
        self.is_live = False
        self.has_ended = False
        self.started_at = 0.0
        self.calls: deque[TaskRun] = deque()
        self.held: dict[bytes, deque[WaitingCalls]] = {}
        self.unready: dict[tuple[bytes, int], WaitingCalls] = {}

    def let_go(self, session: bytes) -> None:
        """The calls of a caller before the first that lacks an object may start."""
        held = self.held[session]
        while held and held[0].is_ready:
            self.calls.append(held.popleft().run)
        if not held:
            del self.held[session]

    def hold_back(self, session: bytes, earlier: list[TaskRun], lost: Set[ObjectKey]) -> list[TaskRun]:
        """Objects are lost: calls of this caller that need them wait, and hold back later ones. ``earlier``: those that
        have come back from the process. Returns the calls that lack objects now, and did not before."""
        own = [run for run in self.calls if run.session == session]
        waiting = [WaitingCalls(run, True) for run in (*earlier, *own)] + list(self.held.get(session, ()))
        lacking = [each for each in waiting if each.is_ready and not lost.isdisjoint(references_of(each.run))]
        for each in lacking:
            each.is_ready = False
            self.unready[session, each.run.first_task] = each
        self.calls = deque(run for run in self.calls if run.session != session)
        self.held[session] = deque(waiting)
        self.let_go(session)
        return [each.run for each in lacking]

    def take_calls(self) -> list[WaitingCalls]:
        """Remove and return all calls that have not reached the process."""
        taken = [WaitingCalls(run, True) for run in self.calls]
        taken.extend(each for held in self.held.values() for each in held)
        self.calls.clear()
        self.held.clear()
        self.unready.clear()
        return taken


def references_of(run: TaskRun) -> list[ObjectKey]:
    """Return the objects that these calls name."""
    return run.references() if run.has_references else []


class HostedActors:
    """The actors that have a process. ``due``: the actors with calls that are ready."""

    def __init__(self) -> None:
        self.due: dict[HostedActor, None] = {}
        self._actors: dict[tuple[bytes, int], HostedActor] = {}

    def __bool__(self) -> bool:
        return bool(self._actors)

    # ---- actors ----------------------------------------------------------------------------------------------------

    def add(self, actor: HostedActor) -> None:
        self._actors[actor.run.session, actor.run.first_task] = actor

    def get(self, session: bytes, task: int) -> HostedActor | None:
        """Return the actor; None: it has ended, or has no process yet."""
        return self._actors.get((session, task))

    def forget(self, actor: HostedActor) -> None:
        self.due.pop(actor, None)
        if self._actors.get((actor.run.session, actor.run.first_task)) is actor:
            del self._actors[actor.run.session, actor.run.first_task]

    # ---- calls -----------------------------------------------------------------------------------------------------

    def expect_call(self, run: TaskRun) -> bool:
        """Calls have arrived before objects that they need. False: there is no such actor."""
        actor = self._live(run)
        if actor is None:
            return False
        for index in range(run.count):
            waiting = WaitingCalls(run.slice(index, index + 1), False)
            actor.held.setdefault(run.session, deque()).append(waiting)
            actor.unready[run.session, waiting.run.first_task] = waiting
        return True

    def add_call(self, run: TaskRun) -> bool:
        """All that these calls need is here. False: there is no such actor."""
        actor = self._live(run)
        if actor is None:
            return False
        if (run.session, run.first_task) in actor.unready:
            for task in range(run.first_task, run.first_task + run.count):
                actor.unready.pop((run.session, task)).is_ready = True
            actor.let_go(run.session)
        elif run.session in actor.held:
            actor.held[run.session].append(WaitingCalls(run, True))
        else:
            actor.calls.append(run)
        self._note_due(actor)
        return True

    def drop_call(self, run: TaskRun) -> None:
        """These calls have failed because an object is missing: those behind them need not wait for them."""
        actor = self._live(run)
        for task in range(run.first_task, run.first_task + run.count) if actor is not None else ():
            waiting = actor.unready.pop((run.session, task), None) if actor is not None else None
            if actor is not None and waiting is not None:
                actor.held[run.session].remove(waiting)
                actor.let_go(run.session)
                self._note_due(actor)

    def remove(self, session: bytes, tasks: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
        """Like ``TaskQueue.remove``. Calls that wait for objects are removed, too, but returned by
        ``ObjectExchange``."""
        removed: list[tuple[int, int]] = []
        for actor in list(self._actors.values()):
            if actor.calls or actor.held:
                self._remove_calls(actor, session, tasks, removed)
        return removed

    def _remove_calls(
        self, actor: HostedActor, session: bytes, tasks: Collection[tuple[int, int]], removed: list[tuple[int, int]]
    ) -> None:
        actor.calls = deque(part for run in actor.calls for part in without_tasks(run, session, tasks, removed))
        if session in actor.held:
            kept: deque[WaitingCalls] = deque()
            for each in actor.held[session]:
                parts = without_tasks(each.run, session, tasks, removed if each.is_ready else [])
                if each.is_ready:
                    kept.extend(WaitingCalls(part, True) for part in parts)
                elif parts:
                    kept.append(each)
                else:
                    actor.unready.pop((session, each.run.first_task), None)
            actor.held[session] = kept
            actor.let_go(session)
        self._note_due(actor)

    def _note_due(self, actor: HostedActor) -> None:
        if actor.calls:
            self.due[actor] = None
        else:
            self.due.pop(actor, None)

    def _live(self, run: TaskRun) -> HostedActor | None:
        options = run.options
        actor = self._actors.get((options.actor_session or run.session, options.actor))
        return actor if actor is not None and actor.is_live else None

    # ---- what is here ----------------------------------------------------------------------------------------------

    def runs(self) -> Iterator[TaskRun]:
        """Return the calls that wait for nothing but their turn."""
        for actor in self._actors.values():
            yield from actor.calls
            yield from (each.run for held in actor.held.values() for each in held if each.is_ready)

    def hold_back(
        self, actor: HostedActor, returned: dict[bytes, list[TaskRun]], lost: Set[ObjectKey]
    ) -> list[TaskRun]:
        """Objects are lost: see ``HostedActor.hold_back``. ``returned``: the calls that have come back from the
        process, by caller."""
        sessions = dict.fromkeys([*returned, *(run.session for run in actor.calls), *actor.held])
        lacking = [run for each in sessions for run in actor.hold_back(each, returned.get(each, []), lost)]
        self._note_due(actor)
        return lacking

    def live(self) -> list[Named]:
        """Return the anchors of the actors that take calls."""
        return [actor.name for actor in self._actors.values() if actor.is_live]

    def live_columns(self) -> list[TaskColumn]:
        return columns_of((), self.live())
