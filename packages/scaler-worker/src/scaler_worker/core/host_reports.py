"""Reports of the agent about its host and itself: the software of its worker processes, and the lines of its log. A
scheduler that supports it gets all of this when it welcomes the agent, and news at once."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.messages import LOG_LINES_SINCE_MINOR, SOFTWARE_SINCE_MINOR, HostSoftware, LogLine
from scaler_worker.core.agent_log import AgentLog
from scaler_worker.core.state import AgentState


class HostReports:
    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._software: HostSoftware | None = None
        self._log = AgentLog()

    def restart(self) -> None:
        """Report everything to a scheduler that does not know this agent."""
        self._log.restart()
        self.resume()

    def resume(self) -> None:
        """Report the software, and the lines of the log that the scheduler does not have."""
        self._report_software()
        self._report_log()

    def on_software_read(self, software: HostSoftware, now: float) -> None:
        """Keep the software of worker processes. The scheduler hears of it now, and whenever it welcomes this agent."""
        self._software = software
        if self._state.welcomed:
            self._report_software()

    def _report_software(self) -> None:
        if self._software is not None and self._state.scheduler_minor >= SOFTWARE_SINCE_MINOR:
            self._state.unsent.append(self._software)

    def on_logged(self, lines: Sequence[LogLine], now: float) -> None:
        """The agent's process has written these lines to its log."""
        self._log.add(lines)
        if self._state.welcomed:
            self._report_log()

    def _report_log(self) -> None:
        lines = self._log.take_unsent() if self._state.scheduler_minor >= LOG_LINES_SINCE_MINOR else None
        if lines is not None:
            self._state.unsent.append(lines)
