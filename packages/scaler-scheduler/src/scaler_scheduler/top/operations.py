"""Carries out the actions for which the user of the screen asks, without keeping the screen waiting."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable

from scaler_protocol.address import Address, parse_address
from scaler_protocol.command.threads import lack_of_thread
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.operation import Operation, OperationOutcome, scheduler_address
from scaler_protocol.monitor.operator import operate

BUSY_TEXT = "Cannot do this: another action is under way. Wait for its answer."
_NO_SNAPSHOT_TEXT = "Cannot do this: nothing is known of the scheduler yet."


class Operations:
    """One at a time, in a thread of its own. ``fd`` is readable when there is an outcome to take. ``watched``: the
    address that was given for the monitor."""

    def __init__(
        self, watched: str, perform: Callable[[Address, Operation, str, str], OperationOutcome] = operate
    ) -> None:
        self.fd, self._told_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watched = watched
        self._perform = perform
        self._thread: threading.Thread | None = None
        self._outcomes: deque[OperationOutcome] = deque()

    def close(self) -> None:
        """An action that is under way is completed by the scheduler, if it has reached it."""
        os.close(self.fd)
        if self._thread is None or not self._thread.is_alive():
            os.close(self._told_fd)

    def begin(self, operation: Operation, snapshot: Snapshot | None) -> None:
        """The outcome comes later."""
        if snapshot is None:
            self._tell(OperationOutcome(False, _NO_SNAPSHOT_TEXT))
        elif self._thread is not None and self._thread.is_alive():
            self._tell(OperationOutcome(False, BUSY_TEXT))
        else:
            self._start(operation, snapshot.scheduler.address)

    def _start(self, operation: Operation, listening: str) -> None:
        try:
            address = scheduler_address(parse_address(self._watched), parse_address(listening))
        except ValueError as error:  # whatever publishes there says so
            self._tell(OperationOutcome(False, f"Cannot do this: {error}"))
            return
        thread = threading.Thread(target=self._run, args=(address, operation), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._tell(OperationOutcome(False, f"Cannot do this: {lack_of_thread(error)}"))
            return
        self._thread = thread

    def take(self) -> OperationOutcome | None:
        """The last outcome since the last call."""
        try:
            os.read(self.fd, 64)
        except BlockingIOError:
            return None
        outcome = self._outcomes[-1] if self._outcomes else None
        self._outcomes.clear()
        return outcome

    def _run(self, address: Address, operation: Operation) -> None:
        self._tell(self._perform(address, operation, "scaler-scheduler", "scaler_top"))

    def _tell(self, outcome: OperationOutcome) -> None:
        self._outcomes.append(outcome)
        with contextlib.suppress(BrokenPipeError):  # the screen has been closed meanwhile
            os.write(self._told_fd, b"!")
