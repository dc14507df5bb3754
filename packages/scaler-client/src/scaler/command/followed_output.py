"""The part of an answer about a worker's output that the answers before it did not have.

An answer has of each task the beginning and the end of what it has printed, and how much is missing between. Of every
task it is noted how many bytes have been seen; the last bytes beyond that number are new. If there are fewer bytes than
were seen, the host has forgotten the task meanwhile, and all of its bytes are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from scaler_protocol.messages import OutputPiece

EXECUTIONS_LIMIT = 10_000
"""An answer has a few hundred. A task that prints again after this many others is shown from its beginning."""


class Execution(NamedTuple):
    """One execution of a task on one worker."""

    session: bytes
    task: int
    attempt: int
    worker: str


class FollowedOutput:
    """``new_in`` returns the pieces of an answer that no earlier answer had, in order."""

    def __init__(self) -> None:
        self.seen_bytes: dict[Execution, int] = {}

    def new_in(self, pieces: Sequence[OutputPiece]) -> list[OutputPiece]:
        found: list[OutputPiece] = []
        for execution, same in groupby(pieces, _execution_of):
            group = list(same)
            size = sum(len(piece.data) + piece.left_out for piece in group)
            seen = self.seen_bytes.pop(execution, 0)
            found.extend(_after(group, seen if seen <= size else 0))
            self.seen_bytes[execution] = size
        for old in list(self.seen_bytes)[:-EXECUTIONS_LIMIT]:
            del self.seen_bytes[old]
        return found


def _execution_of(piece: OutputPiece) -> Execution:
    return Execution(piece.session, piece.task, piece.attempt, piece.worker)


def _after(pieces: Iterable[OutputPiece], seen: int) -> list[OutputPiece]:
    """Leave out the first ``seen`` bytes."""
    found: list[OutputPiece] = []
    for piece in pieces:
        left_out, data = max(0, piece.left_out - seen), piece.data[max(0, seen - piece.left_out) :]
        seen = max(0, seen - piece.left_out - len(piece.data))
        if data or left_out:
            found.append(replace(piece, left_out=left_out, data=data))
    return found
