"""Nodes of graphs on this host: contract of nodes.pyx.

A node waits until the values of its inputs are here, then it is ready and in the queue, or until all inputs that have
no value are dispatched to one worker process: then it may go right behind them, and the process fills in their results
itself. The value of a finished node is kept until the scheduler says (with a Cancel) that it is not needed; a value
made elsewhere is fetched, and kept the same way. A node whose input ends here without a value is given back.
"""

from collections.abc import Callable, Iterable

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.messages import ObjectKey

Named = tuple[bytes, int, int]
"""session, task, attempt"""

class Nodes:
    waiting: int
    """The number of nodes that wait for values or objects."""
    def __bool__(self) -> bool: ...
    def __len__(self) -> int: ...
    def __contains__(self, session: bytes) -> bool: ...
    def forget_worker_process(self, number: int) -> None: ...
    def add(
        self, run: TaskRun, lacks_objects: bool
    ) -> tuple[list[TaskRun], list[ObjectKey], list[ObjectKey], list[tuple[bytes, int, int]]]:
        """Enter the tasks of a run: (runs that may be queued, keys of values to be fetched, keys of large values of
        earlier attempts, which are free, what cannot run here any more). A task that waits already is replaced, and
        what waited for it leaves."""

    def keep(self, keys: Iterable[ObjectKey]) -> tuple[list[ObjectKey], list[ObjectKey]]:
        """Values that are to be here although nothing here needs them: (those that are, those to be fetched)."""

    def objects_here(self, run: TaskRun) -> list[TaskRun]:
        """The objects that these tasks lacked are here; the runs that may be queued."""

    def fragments(
        self,
        number: int,
        runs: list[TaskRun],
        seconds: float,
        room: int,
        estimate: Callable[[bytes], float | None],
    ) -> list[TaskRun]:
        """``runs`` go to worker process ``number``. Returns the runs that may follow them, for about ``seconds`` and
        at most ``room`` tasks; ``estimate(function)`` is a task's seconds, if known."""

    def values(self, runs: list[TaskRun]) -> tuple[list[ResultRun], list[ObjectKey]]:
        """The values that a worker process needs for ``runs``: small values as results, keys of large ones."""

    def harvested(self, kept: list[tuple[TaskRun, int, int, bytes]]) -> tuple[list[TaskRun], list[Named]]:
        """Rows (run, task, status, payload) of nodes that ended: (runs that may be queued, nodes to give back)."""

    def arrived(self, key: ObjectKey) -> list[TaskRun] | None:
        """A fetched value is in the store; the runs that may be queued. None: no node waits for it."""

    def gone(self, session: bytes, tasks: Iterable[int]) -> list[Named]:
        """These ended without a value, or left this host. Returns the nodes that waited for them and must leave."""

    def missing(self, key: ObjectKey) -> list[Named]:
        """No host has a value that was requested. Returns the nodes that waited for it and must leave. A task that
        came here meanwhile to make the value is not affected."""

    def put_back(self, run: TaskRun) -> tuple[list[TaskRun], list[Named]]:
        """A worker process gave these back unstarted: (runs to be queued, nodes to give back)."""

    def cancel(
        self, session: bytes, tasks: Iterable[int], attempts: Iterable[int]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[ObjectKey], list[Named]]:
        """Stop what waits, free what is held: (what waited, what is elsewhere, large values freed, nodes to give
        back)."""

    def value(self, key: ObjectKey) -> bytes | None:
        """A small value."""

    def waiting_tasks(self) -> list[Named]: ...
    def take_waiting(self) -> list[Named]:
        """All that waits leaves this host."""

    def held_runs(self) -> list[ResultRun]:
        """A row without payload for every value held here, for a scheduler that does not know of them."""

    def wrong_counts(self) -> list[str]:
        """Return a sentence for each wrong count of nodes and of their inputs."""

    def correct_counts(self) -> tuple[list[str], list[TaskRun]]:
        """Correct the counts. Returns what ``wrong_counts`` would, and the runs that may then be queued."""

    def check(self) -> None: ...
