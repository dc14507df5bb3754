"""The worker processes of a host, and which of them can take what (contract; the code is in roster.pyx).

The groups are kept by ``sort`` and ``remove``, so that a turn costs the same with two processes and with two hundred.
"""

from scaler_worker.core.worker_process import WorkerProcess

class Roster:
    def __init__(self, slots: int) -> None: ...
    @property
    def slots(self) -> int: ...
    @property
    def processes(self) -> dict[int, WorkerProcess]:
        """All, by number."""

    @property
    def idle(self) -> dict[int, WorkerProcess]:
        """They hold nothing and may be given tasks."""

    @property
    def busy(self) -> dict[int, WorkerProcess]:
        """They hold tasks."""

    @property
    def full(self) -> dict[int, WorkerProcess]:
        """They hold more than the task that they run."""

    @property
    def blocked(self) -> dict[int, WorkerProcess]:
        """Their task waits for tasks of its own."""

    @property
    def awaiting_locks(self) -> dict[int, WorkerProcess]:
        """The blocked worker processes whose task waits for a lock."""

    @property
    def is_stuck(self) -> bool:
        """All that are busy are blocked, and some wait for locks: one task of any depth may start. Not when very many
        wait for locks, so that a lock that is held for long does not fill the host with processes."""

    @property
    def short_of_work(self) -> dict[int, WorkerProcess]:
        """They hold tasks and may need more."""

    @property
    def worn(self) -> dict[int, WorkerProcess]:
        """They are given nothing more, and hold nothing: they can be replaced."""

    @property
    def in_environments(self) -> dict[int, WorkerProcess]:
        """They run only tasks of one environment each."""

    @property
    def deepest_blocked(self) -> int: ...
    @property
    def blocked_actors(self) -> int:
        """The number of blocked worker processes that host actors which take calls."""

    @property
    def is_crowded(self) -> bool:
        """True if as many are busy as may be."""

    def depth_needed(self, more: int) -> int:
        """The depth that a task must exceed to be started when ``more`` idle processes become busy. -1: any will do."""

    def depth_to_start(self) -> int | None:
        """The depth that a task must exceed to be started on an idle worker process. None: any will do."""

    def add(self, process: WorkerProcess) -> None: ...
    def remove(self, number: int) -> WorkerProcess | None: ...
    def forget(self, process: WorkerProcess) -> None:
        """It is not in ``processes`` any more: nor in any group."""

    def sort(self, process: WorkerProcess) -> None:
        """Something about this worker process changed: count it where it belongs."""

    def settle(self, process: WorkerProcess) -> None:
        """Tasks that it held have ended or were taken back."""

    def wrong_groups(self) -> list[str]:
        """Return a sentence for each worker process that is not in the right groups."""

    def correct_groups(self) -> list[str]:
        """Sort these processes again. Returns what ``wrong_groups`` would."""

    def check(self) -> None: ...
