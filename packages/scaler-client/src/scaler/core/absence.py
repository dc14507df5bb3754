"""Logs that the client waits for its scheduler."""

from __future__ import annotations

from scaler_protocol.effects import Log

TELL_AFTER_SECONDS = 1.0


class Absence:
    """Logs one line each time the scheduler is away for longer than TELL_AFTER_SECONDS. If ``address`` is empty,
    nothing is logged, because the client's agent looks for the scheduler."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._was_there = False
        self._is_told = not address

    def due(self, lost_since: float | None) -> float | None:
        """Return when to log the line, if the scheduler does not come back before."""
        return None if lost_since is None or self._is_told else lost_since + TELL_AFTER_SECONDS

    def tell(self, is_connected: bool, obstacle: str) -> Log:
        """``obstacle``: why there is no connection, if that is known."""
        self._is_told = True
        if obstacle:
            return Log("WARNING", f"Waiting for the scheduler. {obstacle}")
        is_there = self._was_there or is_connected
        command = "Check with: scaler doctor" if is_there else "Start one there with: scaler_scheduler"
        return Log("WARNING", f"{self._state(is_connected)} {command} {self._address}")

    def count_as_told(self) -> None:
        """Another line has just said why the client has no scheduler."""
        self._is_told = True

    def _state(self, is_connected: bool) -> str:
        if is_connected:
            return f"Waiting for a scheduler: what listens at {self._address} does not answer as one."
        if self._was_there:
            return f"Waiting for the scheduler at {self._address}, whose connection is lost."
        return f"Waiting for a scheduler at {self._address}: none answers there yet."

    def end(self) -> None:
        """The scheduler is connected."""
        self._was_there = True
        self._is_told = not self._address
