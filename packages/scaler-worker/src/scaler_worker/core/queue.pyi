"""Runs that wait on this host for a worker process (contract; the code is in queue.pyx)."""

from collections.abc import Collection

from scaler_protocol.codec import TaskRun

Named = tuple[int, int]
"""A task and its attempt. 0: any attempt."""

class TaskQueue:
    """Deeper tasks first, then higher priority; then clients take turns, each in order of arrival. Turns are not
    weighed, because the scheduler decides how much of each client's work is here: they only keep the tasks of one
    client from waiting for all of another's."""

    count: int
    """The number of tasks."""

    @property
    def environments(self) -> dict[bytes, str]:
        """The environments, as text, of the tasks that name a serializer, by its digest; the agent fills it."""

    def push(self, run: TaskRun) -> None: ...
    def push_front(self, run: TaskRun) -> None:
        """A run that was taken out and did not start."""

    def head(self, deeper_than: int | None = None) -> TaskRun | None:
        """The run whose first task is next."""

    def take(self, limit: int) -> TaskRun:
        """Up to ``limit`` tasks from the head."""

    def environment_of(self, run: TaskRun) -> str:
        """Empty: it can run in worker processes without an environment."""

    def environments_waiting(self, deeper_than: int) -> list[str]:
        """The environments of the tasks that wait, those of the next tasks first. ``deeper_than``: -1 for any depth."""

    def count_in(self, environment: str, limit: int) -> int:
        """Return how many tasks wait for this environment; ``limit`` if there are more."""

    def first_in(self, environment: str, deeper_than: int) -> TaskRun | None:
        """Like ``head``, among the tasks of this environment. ``deeper_than``: -1 for any depth."""

    def take_in(self, environment: str, limit: int) -> TaskRun:
        """Up to ``limit`` tasks of the first run of this environment. Raises IndexError if there is none."""

    def withdraw(self, count: int) -> list[TaskRun]:
        """Take out up to ``count`` tasks, those that would run last."""

    def remove(self, session: bytes, tasks: Collection[Named]) -> list[Named]:
        """Take out the given tasks; returns those that were here, with their attempts."""

    def runs(self) -> list[TaskRun]: ...
    def clear(self) -> list[TaskRun]:
        """Take out everything."""

    def wrong_counts(self) -> list[str]:
        """Return a sentence if the count is not that of the tasks in the queue."""

    def correct_counts(self) -> list[str]:
        """Correct the count. Returns what ``wrong_counts`` would."""

    def check(self) -> None: ...

def without_tasks(run: TaskRun, session: bytes, tasks: Collection[Named], removed: list[Named]) -> list[TaskRun]:
    """The parts of ``run`` that are left; what is taken out is added to ``removed``."""
