"""One worker process, as the core sees it (contract; the code is in worker_process.pyx).

Its process goes through these states, and is given tasks in one of them only:

======  =====================================================  =================  ==================  =========
state   meaning                                                ``fork``           ``make_ready``      ``end``
======  =====================================================  =================  ==================  =========
asked   the shell was asked for a process; there is no board   forked             no effect           ending
forked  the process exists and prepares itself                 no effect          ready               ending
ready   it may be given tasks                                  no effect          no effect           ending
ending  its end was asked for; its tasks wait for its death    board, pid         no effect           no effect
======  =====================================================  =================  ==================  =========

In every state the process may die, or turn out not to exist: then the worker process is forgotten.
"""

from scaler_protocol.messages import ObjectKey
from scaler_worker.board import Board, DispatchedRun
from scaler_worker.core.actors import HostedActor
from scaler_worker.core.task_timeouts import Ending

class WorkerProcess:
    slot: int | None
    """None: a spare one."""

    place: int
    """The number by which results name it: its slot, or of a spare process one beyond the slots."""

    name: str
    dispatched: list[DispatchedRun]
    """Unfinished tasks that it was given, oldest first."""
    next_sequence: int
    ending: dict[int, Ending]
    blocked_sequence: int | None
    blocked_depth: int
    waits_for_lock: bool
    suspended: bool
    idle_since: float
    actor: HostedActor | None
    is_dedicated: bool
    """It hosts an actor, or is to make one: it is given nothing else."""

    polled_position: int
    task_limit: int
    """The number of tasks that it may be given; 0: any number."""

    is_worn: bool
    """It is given nothing more, and ends when it holds no task."""

    environment: str | None
    """The environment of its tasks, as text; empty: they need none. None: it was given no task yet, and may get any."""

    def __init__(self, number: int, slot: int | None, name: str) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def functions(self) -> set[bytes]:
        """Digests that it has seen, of serializers, too."""

    @property
    def objects(self) -> set[ObjectKey]:
        """The objects that it has been sent."""

    @property
    def board(self) -> Board | None:
        """None: there is no process yet."""

    @property
    def pid(self) -> int: ...
    def fork(self, board: Board, pid: int) -> bool:
        """There is a process. False: there was one before."""

    def make_ready(self) -> bool:
        """The process says that it is ready. False: it cannot be, or was before."""

    def end(self) -> bool:
        """Its end is asked for: it is given nothing more. False: it was before."""

    @property
    def ready(self) -> bool: ...
    @property
    def dying(self) -> bool: ...
    @property
    def busy(self) -> bool: ...
    @property
    def blocked(self) -> bool: ...
    @property
    def available(self) -> bool:
        """May be given tasks, as far as it is concerned."""

    def unfinished(self) -> int:
        """Return how many tasks it holds."""

    def entry_of(self, sequence: int) -> DispatchedRun | None: ...
    def find(self, session: bytes, task: int, attempt: int | None) -> tuple[DispatchedRun, int] | None:
        """Return where a task is, if it is here and unfinished."""

    def open_sequences(self) -> list[tuple[DispatchedRun, int, int]]:
        """(run, sequence, claim cell) of everything dispatched that has neither ended nor been taken back, oldest
        first."""

    def check(self) -> None: ...
