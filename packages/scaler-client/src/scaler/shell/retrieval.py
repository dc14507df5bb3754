"""A large result on its way here from the store of another host."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from scaler.core.outcome import LOCATED, Outcome
from scaler.shell.waiting import PendingAnswer, Waiter
from scaler_protocol.messages import ObjectLocations, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from scaler.core.large_results import LargeResult
    from scaler.core.session import Session
    from scaler.shell.client_store import ClientStore

DIRECT_BYTES = 1024 * 1024
"""Smaller results come through the scheduler, because asking for their location takes as long."""


class Turns(Waiter, Protocol):
    """The interface of the client's I/O to a retrieval."""

    objects: ClientStore

    def take_turn(self, change: Callable[[Session], None], *, must_be_usable: bool = True) -> None: ...


class Retrieval(PendingAnswer):
    """The first thread that waits lets this host's store fetch the result. If that fails, the result comes through the
    scheduler."""

    def __init__(self, client_io: Turns, large: LargeResult) -> None:
        super().__init__(client_io)
        self._turns = client_io
        self._large: LargeResult | None = large
        self._taking = threading.Lock()

    def wait(self, timeout_seconds: float | None = None) -> Outcome:
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        outcome = super().wait(timeout_seconds)
        while outcome.status == LOCATED:
            with self._taking:
                self._take(_rest(deadline))
            outcome = super().wait(_rest(deadline))
        return outcome

    def _take(self, timeout_seconds: float | None) -> None:
        located, large, client_io = self.outcome, self._large, self._turns
        if located is None or located.status != LOCATED or large is None:
            return  # another thread has done it
        where: ObjectLocations = located.payload
        view = client_io.objects.fetch(where.key, where.size, where.sources, timeout_seconds)

        def settle(session: Session) -> None:
            if view is None:
                self.outcome = None
                session.large.fetch(large, self)
            else:
                self.outcome = Outcome(Status.SUCCESS, view)
                session.large.has_taken(large)
            self._large = None

        client_io.take_turn(settle, must_be_usable=view is None)


def _rest(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
