"""Heartbeats: how the scheduler knows that this agent lives, and the agent that the scheduler hears it."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.messages import (
    WORKERS_UNCHANGED_SINCE_MINOR,
    Heartbeat,
    HeartbeatEcho,
    Ping,
    RunningTask,
    WorkerStatus,
)
from scaler_worker.core.hot_path import PING_SECONDS, send
from scaler_worker.core.state import AgentState

IDLE_PING_SECONDS = 2.2
"""Agents without tasks; their heartbeats are usually more frequent. The scheduler uses the same interval."""


class Heartbeats:
    """A status report is a heartbeat, and its echo proves that the scheduler is there. After PING_SECONDS without any
    message, a ping stands in for it."""

    def __init__(self, state: AgentState) -> None:
        self.last: Heartbeat | None = None
        self._state = state
        self._lag_seconds = 0.0
        self._told_workers: tuple[WorkerStatus, ...] | None = None  # on this connection

    def report(
        self, cpu_percent: float, rss_bytes: int, rss_free_bytes: int, queued: int, workers: tuple[WorkerStatus, ...],
        running_tasks: tuple[RunningTask, ...], memory_limit_bytes: int, now: float,
    ) -> None:  # fmt: skip
        """Send a status report with these figures of the host."""
        self.last = Heartbeat(
            now, self._lag_seconds, cpu_percent, rss_bytes, rss_free_bytes, queued, workers, running_tasks,
            memory_limit_bytes,
        )  # fmt: skip
        if self._state.welcomed:
            send(self._state, self._state.link.wrap(self._without_repetition(self.last)), now)

    def _without_repetition(self, report: Heartbeat) -> Heartbeat:
        """Return what is sent of ``report``. The rows of idle workers rarely change, and are most of its bytes."""
        may_lack_rows = self._state.scheduler_minor >= WORKERS_UNCHANGED_SINCE_MINOR
        if may_lack_rows and report.workers == self._told_workers:
            return replace(report, workers=(), workers_unchanged=True)
        self._told_workers = report.workers
        return report

    def on_welcome(self) -> None:
        """The next report has the rows of all workers: on the last connection some may have been lost."""
        self._told_workers = None

    def on_echo(self, echo: HeartbeatEcho, now: float) -> None:
        self._state.is_watched = echo.watched
        if echo.sent_at:
            self._lag_seconds = max(0.0, now - echo.sent_at)
            self._state.lease.proved(echo.sent_at, now)

    def ask_for_proof(self, now: float) -> None:
        """Nothing starts until the scheduler has answered a heartbeat of now."""
        if self.last is not None and self._state.welcomed:
            send(self._state, self._state.link.wrap(replace(self.last, sent_at=now)), now)

    def keep_alive(self, now: float, has_nothing: bool) -> None:
        """Send something if nothing was sent for long; for longer if the agent ``has_nothing`` that its loss would
        harm. It looks as often, though: a pause would make it doubt what it reads next."""
        self._state.looked_at = now
        if now < self._state.sent_at + (IDLE_PING_SECONDS if has_nothing else PING_SECONDS):
            return
        if self._state.lease.proof_wanted_since is not None:
            self.ask_for_proof(now)
        send(self._state, self._state.link.wrap(Ping()), now)
