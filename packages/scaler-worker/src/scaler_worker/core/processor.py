"""One processor, as the core sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaler_protocol.messages import ObjectKey

if TYPE_CHECKING:
    from scaler_worker.board import Board, Handed


@dataclass(slots=True)
class Ending:
    """A running task that is to end: why, and when its process is killed if it does not."""

    reason: str
    kill_at: float
    reached: bool = False  # it was under way when the signal was sent


@dataclass(slots=True)
class Processor:
    number: int
    slot: int | None
    name: str
    board: Board | None = None
    pid: int = 0
    ready: bool = False
    dying: bool = False
    handed: list[Handed] = field(default_factory=list)
    next_sequence: int = 0
    functions: set[bytes] = field(default_factory=set)
    objects: set[ObjectKey] = field(default_factory=set)
    ending: dict[int, Ending] = field(default_factory=dict)
    blocked_sequence: int | None = None
    blocked_depth: int = 0
    suspended: bool = False
    idle_since: float = 0.0
    polled_position: int = -1

    @property
    def busy(self) -> bool:
        return bool(self.handed)

    @property
    def blocked(self) -> bool:
        return self.blocked_sequence is not None

    @property
    def available(self) -> bool:
        """May be given tasks, as far as it is concerned."""
        return self.ready and not self.dying and self.blocked_sequence is None

    def unfinished(self) -> int:
        handed = self.handed
        if not handed:
            return 0
        return handed[0].unfinished if len(handed) == 1 else sum([entry.unfinished for entry in handed])

    def forget_finished(self) -> None:
        handed = self.handed
        while handed and not handed[0].unfinished:
            del handed[0]
        if len(handed) > 1:
            self.handed = [entry for entry in handed if entry.unfinished]

    def entry_of(self, sequence: int) -> Handed | None:
        for entry in self.handed:
            if entry.first_sequence <= sequence < entry.end_sequence:
                return entry
        return None

    def find(self, session: bytes, task: int, attempt: int | None) -> tuple[Handed, int] | None:
        """Where a task is, if it is here and may be unfinished."""
        assert self.board is not None
        for entry in self.handed:
            if entry.session != session or (attempt and entry.attempt != attempt):
                continue
            if entry.first_task <= task < entry.first_task + entry.count:
                sequence = entry.first_sequence + task - entry.first_task
                return (entry, sequence) if sequence >= self.board.harvested else None
        return None

    def open_sequences(self) -> Iterator[tuple[Handed, int, int]]:
        """(run, sequence, claim cell) of everything handed over and not harvested, oldest first."""
        assert self.board is not None
        harvested = self.board.harvested
        for entry in self.handed:
            for sequence in range(max(entry.first_sequence, harvested), entry.end_sequence):
                yield entry, sequence, self.board.cell(sequence)
