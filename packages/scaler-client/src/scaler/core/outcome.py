"""The outcome of a task, which the client keeps until its result is requested."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from scaler_protocol.messages import Status

DISCONNECTED = 200
"""A status that only the client uses: it could not reach the scheduler, or was refused. The payload is a sentence."""

LOCATED = 202
"""A status that only the client uses: a large result is in the stores of other hosts. The payload is its
ObjectLocations."""


class Outcome(NamedTuple):
    status: int
    payload: Any  # bytes; for SUCCESS_LARGE a LargeResult
    duration_us: int = 0
    cpu_time_us: int = 0
    memory_peak: int = 0


CANCELLED = Outcome(Status.CANCELLED, b"")


class Sink(Protocol):
    """Receives the outcome of one task, or the answer to one request."""

    def settle(self, outcome: Outcome) -> bool:
        """Take ``outcome``. False: a thread waits, so ``finish`` must be called with it where no lock is held."""

    def finish(self, outcome: Outcome) -> None:
        """Take ``outcome``, wake the threads that wait for it and run callbacks."""
