"""The actors of this host, and what waits for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import TaskColumn
from scaler_worker.core.columns import columns_of
from scaler_worker.core.nodes import Named
from scaler_worker.core.queue import without_tasks

ENDED_TEXT = b"The actor has ended."


class WaitingCalls:
    """Calls that are not at the process of their actor yet. ``is_ready``: the objects that they need are here."""

    __slots__ = ("run", "is_ready")

    def __init__(self, run: TaskRun, is_ready: bool) -> None:
        self.run = run
        self.is_ready = is_ready


class HostedActor:
    """``run`` is the task that makes it, its anchor. ``process`` is the number of its worker process. ``is_live``: its
    constructor has returned. ``calls`` wait, in order; those that are not ready hold back those behind them."""

    def __init__(self, run: TaskRun, process: int) -> None:
        self.run = run
        self.name: Named = (run.session, run.first_task, run.attempt)
        self.process = process
        self.is_live = False
        self.has_ended = False
        self.started_at = 0.0
        self.calls: deque[WaitingCalls] = deque()
        self.unready: dict[tuple[bytes, int], WaitingCalls] = {}

    @property
    def has_ready_calls(self) -> bool:
        return bool(self.calls) and self.calls[0].is_ready


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
            actor.calls.append(waiting)
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
        else:
            actor.calls.append(WaitingCalls(run, True))
        if actor.has_ready_calls:
            self.due[actor] = None
        return True

    def drop_call(self, run: TaskRun) -> None:
        """These calls have failed because an object is missing: those behind them need not wait for them."""
        actor = self._live(run)
        for task in range(run.first_task, run.first_task + run.count) if actor is not None else ():
            waiting = actor.unready.pop((run.session, task), None) if actor is not None else None
            if actor is not None and waiting is not None:
                actor.calls.remove(waiting)
                if actor.has_ready_calls:
                    self.due[actor] = None

    def remove(self, session: bytes, tasks: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
        """Like ``TaskQueue.remove``. Calls that wait for objects are removed, too, but returned by
        ``ObjectExchange``."""
        removed: list[tuple[int, int]] = []
        for actor in list(self._actors.values()):
            if actor.calls:
                self._remove_calls(actor, session, tasks, removed)
        return removed

    def _remove_calls(
        self, actor: HostedActor, session: bytes, tasks: Collection[tuple[int, int]], removed: list[tuple[int, int]]
    ) -> None:
        kept: deque[WaitingCalls] = deque()
        for each in actor.calls:
            parts = without_tasks(each.run, session, tasks, removed if each.is_ready else [])
            if each.is_ready:
                kept.extend(WaitingCalls(part, True) for part in parts)
            elif parts:
                kept.append(each)
            else:
                actor.unready.pop((session, each.run.first_task), None)
        actor.calls = kept
        if actor.has_ready_calls:
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
            yield from (each.run for each in actor.calls if each.is_ready)

    def live(self) -> list[Named]:
        """Return the anchors of the actors that take calls."""
        return [actor.name for actor in self._actors.values() if actor.is_live]

    def live_columns(self) -> list[TaskColumn]:
        return columns_of((), self.live())
