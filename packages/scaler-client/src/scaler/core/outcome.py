"""How a task ended, as the client keeps it until somebody asks."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from scaler_protocol.messages import Status

DISCONNECTED = 200
"""A status of this client's own: the scheduler was out of reach, or refused this client; the payload is a sentence."""

FOREIGN_REFERENCE = 201

LOCATED = 202
"""A large result is in stores of other hosts: the payload is their ObjectLocations."""


class Outcome(NamedTuple):
    status: int
    payload: Any  # bytes; for SUCCESS_LARGE a LargeResult
    duration_us: int = 0
    cpu_time_us: int = 0
    memory_peak: int = 0


CANCELLED = Outcome(Status.CANCELLED, b"")


class Sink(Protocol):
    """Where the outcome of one task, or the answer to one request, goes."""

    def settle(self, outcome: Outcome) -> bool:
        """Take ``outcome``. False: somebody waits, so call ``finish`` with it where no lock is held."""

    def finish(self, outcome: Outcome) -> None: ...
