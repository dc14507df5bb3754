"""One processor, as the core sees it (contract; the code is in processor.pyx)."""

from scaler_protocol.messages import ObjectKey
from scaler_worker.board import Board, Handed
from scaler_worker.core.endings import Ending

class Processor:
    slot: int | None
    """None: a spare one."""
    name: str
    board: Board | None
    """None: there is no process yet."""
    pid: int
    ready: bool
    dying: bool
    handed: list[Handed]
    """What it was given and has not finished, oldest first."""
    next_sequence: int
    ending: dict[int, Ending]
    blocked_sequence: int | None
    blocked_depth: int
    waits_for_lock: bool
    suspended: bool
    idle_since: float
    polled_position: int
    def __init__(self, number: int, slot: int | None, name: str) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def functions(self) -> set[bytes]:
        """Digests that it has seen, of serializers, too."""

    @property
    def objects(self) -> set[ObjectKey]:
        """Those that it has been sent."""

    @property
    def busy(self) -> bool: ...
    @property
    def blocked(self) -> bool: ...
    @property
    def available(self) -> bool:
        """May be given tasks, as far as it is concerned."""

    def unfinished(self) -> int:
        """How many tasks it holds."""

    def entry_of(self, sequence: int) -> Handed | None: ...
    def find(self, session: bytes, task: int, attempt: int | None) -> tuple[Handed, int] | None:
        """Where a task is, if it is here and may be unfinished."""

    def open_sequences(self) -> list[tuple[Handed, int, int]]:
        """(run, sequence, claim cell) of everything handed over and not harvested, oldest first."""
