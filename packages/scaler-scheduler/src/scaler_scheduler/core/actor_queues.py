"""The calls of actors that no agent has yet."""

from __future__ import annotations

from collections.abc import Iterator, Set

from scaler_scheduler.core.priority_queues import QueueClass

ActorKey = tuple[bytes, int]
"""An actor: the session and the number of the task that has made it."""


class ActorQueues:
    """A queue for each actor. No agent serves these queues: ``actor_calls`` sends the calls to the agent of the actor.
    ``depths``: the depth of the deepest call of an actor, if it is not 0. ``asked_for``: the attempts of the tasks that
    agents were asked to return, because calls wait for them: the actor, or tasks whose results it needs. ``waiting``:
    the queues that ``actor_calls`` must look at. ``kept``: those of calls that are elsewhere and may come back.
    ``called_by_others``: since when other clients than its own have called an actor. ``made``: the actors that clients
    have asked for; some of their tasks may have ended."""

    def __init__(self) -> None:
        self._queues: dict[ActorKey, QueueClass] = {}
        self._keys: dict[QueueClass, ActorKey] = {}
        self.depths: dict[QueueClass, int] = {}
        self.asked_for: dict[QueueClass, dict[int, int]] = {}
        self.waiting: dict[QueueClass, None] = {}
        self.kept: dict[QueueClass, None] = {}
        self.called_by_others: dict[ActorKey, float] = {}
        self.made: dict[ActorKey, None] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[QueueClass]:
        return iter(self._keys)

    def queue_of(self, session: bytes, task: int) -> QueueClass:
        """Return the queue of an actor. It is made when first needed."""
        key = session, task
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = QueueClass((), 0)
            self._keys[queue] = key
        return queue

    def note_depth(self, queue: QueueClass, depth: int) -> None:
        """Calls that are so deep belong to this queue."""
        if depth > self.depths.get(queue, 0):
            self.depths[queue] = depth

    def key_of(self, queue: QueueClass) -> ActorKey:
        return self._keys[queue]

    def look_at(self, key: ActorKey) -> None:
        """Have ``actor_calls`` look at the queue of an actor, to which something has happened."""
        queue = self._queues.get(key)
        if queue is not None and queue.count:
            self.waiting[queue] = None

    def look_at_returned(self, session: bytes, ranges: list) -> None:
        """An agent has returned these tasks, among them perhaps some that make actors, or that actors wait for."""
        for record, first, stop in ranges:
            for task in range(first, stop) if record.hosts_actor else ():
                self.look_at((session, task))
        for queue, asked in self.asked_for.items():
            if self._keys[queue][0] == session and any(
                first <= each < stop for each in asked for _, first, stop in ranges
            ):
                self.look_at(self._keys[queue])

    def look_at_all(self) -> None:
        self.waiting.update({queue: None for queue in self._keys if queue.count})

    def empty(self) -> None:
        """Empty all queues."""
        for queue in self._keys:
            queue.empty()

    def drop(self, queue: QueueClass) -> None:
        """All calls of a queue have failed. Clients choose the numbers of actors, so there may be very many."""
        if queue not in self.kept:
            self._forget(queue)

    def keep(self, needed: Set[QueueClass]) -> None:
        """Forget the queues that are empty and not needed by any task."""
        for queue in list(self._keys):
            if not queue.count and queue not in needed:
                self._forget(queue)
                self.waiting.pop(queue, None)
                self.kept.pop(queue, None)

    def _forget(self, queue: QueueClass) -> None:
        key = self._keys.pop(queue)
        del self._queues[key]
        self.called_by_others.pop(key, None)
        self.depths.pop(queue, None)
        self.asked_for.pop(queue, None)
