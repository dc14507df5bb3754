"""The load of an agent, in counts and in estimated microseconds (contract of agent_loads.pyx).

An agent has room while a slot is free, or while what is queued there would last less than its horizon: 10 ms, or 5 ms
and one and a half of its round trip to the scheduler if that is longer. While its tasks take at most 50 ms on average,
it also has room for one waiting task per slot, so that no worker waits for a round trip after each task. It never has
room for more than ``ceiling``, which is meant for 10 ms and grows with the round trip. Tasks that are less deep than a
new one do not count against it: they may be waiting for it. It has no room while actors have all its workers: an actor
at rest may last for days, and what waits behind it could start elsewhere.
"""

from typing import Any

from scaler_scheduler.core.priority_queues import QueueClass

class AgentLoad:
    """The load of an agent, in counts and in estimated microseconds. ``outstanding``, ``actors`` and ``load_us``
    change only with its tasks."""

    index: int
    slots: int
    lent: int
    lent_by_actors: int
    """The lent slots of actors whose calls wait."""
    deepest: int
    ceiling: int
    outstanding: int
    actors: int
    """Tasks that make actors, among the outstanding ones."""
    live_actors: dict[tuple[bytes, int], int]
    """Actors that take calls, as the agent says."""
    unclaimed: int
    """Tasks and actors of absent clients, among the outstanding ones."""
    unclaimed_actors: int
    load_us: int
    moving_us: int
    """Microseconds that the inputs of its tasks would take to move elsewhere, over all of them."""
    resources: dict[str, int]
    deferred: list[tuple[Any, int, int]]
    """(table, task, raised) of the nodes of graphs that go to this agent when it has room, and by how many steps of
    priority their client was raised."""
    reserved: dict[QueueClass, list[tuple[float, int, Any]]]
    """The reservations of tasks that only this agent may take, because it has their bytes: a heap for each queue, by
    the time when the reservation ends. Tables and reservations know agents, not the other way round."""
    reserved_count: int
    has_own: bool
    """Something is deferred or reserved."""
    reserved_us: int
    session: bytes
    store: bytes
    is_available: bool
    progress_at: float
    """The last time at which a task ended there."""
    horizon_us: int
    """The amount of work that each worker may have waiting."""
    round_trip_us: int
    """The round trip of messages to the agent, if it is long enough to extend the horizon, or else 0."""
    def __init__(self, index: int, slots: int, ceiling: int, resources: dict[str, int] | None = None) -> None: ...
    def has_room(self, depth: int) -> bool: ...
    def has_only_live_actors(self) -> bool:
        """Return whether live actors have all its workers, apart from those that they lend."""

    def queued_us(self) -> int: ...
    def note_round_trip(self, seconds: float) -> None:
        """The time from a heartbeat to its echo. The shortest of the last four counts, up to 250 ms: what a busy
        machine adds to some of them is not distance."""

    def budget_us(self, depth: int) -> int:
        """The work that may be added to what waits, in slot-microseconds; 1 if there is room for one more task, however
        long, because there is not yet one for each slot."""

    def queued(self) -> int: ...
    def waiting_us(self, now: float) -> float: ...
    def key(self, depth: int, rarity: int = 0) -> tuple[bool, int, float, float]:
        """Order of preference: agents with a free slot first, then those with the least ``rarity``, then the least
        loaded."""

    def set_unclaimed(self, tasks: int, actors: int) -> None:
        """Absent clients have so many tasks here, ``actors`` among them. They take a worker each."""

    def forget_reserved(self) -> None: ...
    def fits(self, demand: tuple[tuple[str, int], ...]) -> int: ...
