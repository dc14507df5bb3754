"""Carries out actions on the cluster, in threads of their own, so that the window goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from scaler_gui.models.recent import RecentAddress
from scaler_protocol.address import parse_address
from scaler_protocol.command.threads import lack_of_thread, start_thread
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.operation import Operation, OperationOutcome, scheduler_address
from scaler_protocol.monitor.operator import operate

_RECORDING_TEXT = "Cannot act on a recording."
_AWAY_TEXT = "Cannot do this: nothing is known of the scheduler yet."


class WindowOperations(QObject):
    """``ended`` gives each OperationOutcome."""

    ended = Signal(object)

    def begin(self, operation: Operation, place: RecentAddress | None, snapshot: Snapshot | None) -> None:
        """``place``: of the scheduler that is watched; None for a recording."""
        if place is None:
            self.ended.emit(OperationOutcome(False, _RECORDING_TEXT))
        elif snapshot is None:
            self.ended.emit(OperationOutcome(False, _AWAY_TEXT))
        else:
            try:
                start_thread(partial(self._run, operation, place, snapshot))
            except RuntimeError as error:
                self.ended.emit(OperationOutcome(False, f"Cannot do this: {lack_of_thread(error)}"))

    def _run(self, operation: Operation, place: RecentAddress, snapshot: Snapshot) -> None:
        try:
            address = scheduler_address(parse_address(place.address), parse_address(snapshot.scheduler.address))
        except ValueError as error:  # whatever publishes there says so
            outcome = OperationOutcome(False, f"Cannot do this: {error}")
        else:
            keys = Path(place.keys) if place.keys else None
            outcome = operate(address, operation, "scaler-gui", "scaler_gui", keys)
        try:
            self.ended.emit(outcome)
        except RuntimeError:  # the window was closed meanwhile
            pass
