"""Counts of the agent are compared with the tasks that it holds, and a wrong count is corrected with a warning.

As in the scheduler, no defect is known that makes a count wrong. But a node that waits for one value too many never
runs, and an agent that counts a task too many never leaves, while looking costs little.
"""

from __future__ import annotations

from scaler_protocol.effects import Log
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.state import AgentState

RECOUNT_SECONDS = 5.0
"""Between two counts, at least."""

SECONDS_PER_MILLION_NODES = 60.0
"""More than that for the nodes that this host holds, so that counting takes a small part of the time."""

_SHOWN = 5


class CountCheck:
    def __init__(self, state: AgentState, backend: ExecutionBackend) -> None:
        self._state = state
        self._backend = backend
        self._recount_at = 0.0

    def on_report(self, now: float) -> None:
        """Count again when it is time."""
        if now < self._recount_at:
            return
        self._recount_at = now + RECOUNT_SECONDS + len(self._state.nodes) / 1e6 * SECONDS_PER_MILLION_NODES
        wrong = self._backend.correct_counts()
        if wrong:
            text = "; ".join(wrong[:_SHOWN]) + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else "")
            self._state.outbox.add(Log("WARNING", f"A count was wrong and has been corrected: {text}."))
