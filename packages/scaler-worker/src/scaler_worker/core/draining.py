"""Leaving the cluster cleanly, and the end of the agent.

| Step | Until |
|---|---|
| the agent starts nothing more, and returns what waits | at once; what arrives later returns, too |
| its tasks run on, and other agents fetch the values that are here | nothing is left, or the grace time is over |
| running tasks that must not start again fail | at once |
| it says goodbye | the scheduler has acknowledged everything, for ``FAREWELL_SECONDS`` at most |

None of this depends on the connection, which may be lost and made again meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from scaler_protocol.effects import Log
from scaler_protocol.messages import (
    DEPARTURES_SINCE_MINOR,
    Drain,
    Goodbye,
    Leaving,
    MayLeave,
    Stop,
    TaskColumn,
    Withdrawn,
)
from scaler_worker.core import held_tasks
from scaler_worker.core.columns import columns_of
from scaler_worker.core.effects import Exit
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.hot_path import send
from scaler_worker.core.state import AgentState
from scaler_worker.termination_notice import STOPPED_CODE

FAREWELL_SECONDS = 0.5
"""Seconds for which the last acknowledgements are awaited."""


class OrderlyLeave:
    def __init__(self, state: AgentState, backend: ExecutionBackend, grace_seconds: float) -> None:
        """``grace_seconds``: how long running tasks may go on after ``on_stop``."""
        self._state = state
        self._backend = backend
        self._grace_seconds = grace_seconds
        self._says_leaving = False
        self._may_leave = False
        self._farewell_at: float | None = None
        self._exit_code = 0
        self._ended = False

    # ---- the beginning ---------------------------------------------------------------------------------------

    def on_stop(self, now: float) -> None:
        """Leave cleanly: start nothing more, give back what waits, let what runs end within the grace time."""
        self._begin_to_leave(now + self._grace_seconds)

    def on_drain(self, drain: Drain, now: float) -> None:
        """Leave cleanly, and let what runs end."""
        text = "the scheduler drains this agent: it leaves when its running tasks have ended"
        self._state.outbox.add(Log("INFO", text))
        self._begin_to_leave(math.inf)

    def on_termination_notice(self, now: float) -> None:
        """The machine will be taken away: leave cleanly, as far as there is time."""
        text = "the machine will be taken back: this agent leaves when its running tasks have ended"
        self._state.outbox.add(Log("WARNING", text))
        self._exit_code = STOPPED_CODE
        self._begin_to_leave(math.inf)

    def _begin_to_leave(self, stop_at: float) -> None:
        if self._state.stop_at is not None and self._state.stop_at <= stop_at:
            return
        self._state.stop_at = stop_at
        self._state.accepting = False
        self._state.unsent.append(Withdrawn((), leaving=True))
        self.give_back()

    def on_stop_message(self, stop: Stop, now: float) -> None:
        self.exit(0, "the cluster is shut down")

    # ---- tasks that return -----------------------------------------------------------------------------------

    def give_back(self) -> None:
        """Return waiting tasks: those that were here, that the scheduler sent before it knew, or that a worker process
        left that died."""
        columns = [*self._withdraw_everything(), *self._withdraw_waiting()]
        if columns:
            self._state.unsent.append(Withdrawn(tuple(columns), leaving=True))

    def _withdraw_everything(self) -> list[TaskColumn]:
        return [*self._backend.withdraw(1 << 62), *columns_of((), self._state.nodes.take_waiting())]

    def _withdraw_waiting(self) -> list[TaskColumn]:
        for run in self._state.objects.take_waiting():
            held_tasks.queue_run(self._state, run)
        return self._withdraw_everything()

    # ---- the end ---------------------------------------------------------------------------------------------

    def advance_stop(self, now: float) -> None:
        """Take the next step, if it is time."""
        self.give_back()
        if self._state.stop_at is None or self._ended:
            return
        if self._state.queue.count:  # came after this agent had said that it takes no more
            self._state.unsent.append(Withdrawn(tuple(self._withdraw_everything())))
        if self._farewell_at is None:
            if self._is_done() or now >= self._state.stop_at:
                self._backend.fail_running_once(now)
                self._farewell_at = now
                self._state.goodbye_due = True
        elif not self._state.welcomed or not self._state.link.in_flight or now >= self._farewell_at + FAREWELL_SECONDS:
            self.exit_stopped()

    def _is_done(self) -> bool:
        return self._may_leave_values() and self._backend.is_idle and self._has_said_all()

    def _has_said_all(self) -> bool:
        """Return whether the scheduler is told of all results in time. An agent that has lost its connection waits for
        the next one."""
        state = self._state
        return state.welcomed or not (state.finished or state.rows.waiting or state.retained)

    def _may_leave_values(self) -> bool:
        """Return whether the values that are here are with others, too, or cannot be. Until then, the scheduler is
        having them moved."""
        if self._may_leave or self._state.scheduler_minor < DEPARTURES_SINCE_MINOR:
            return True
        if not self._state.nodes and not self._state.objects.has_results:
            return True
        if not self._says_leaving:
            self._says_leaving = True
            self._state.unsent.append(Leaving())
        return False

    def on_may_leave(self, answer: MayLeave, now: float) -> None:
        self._may_leave = self._says_leaving

    def say_goodbye(self, now: float) -> None:
        self._state.goodbye_due = False
        send(self._state, self._state.link.wrap(Goodbye()), now)

    def exit_stopped(self) -> None:
        """Exit after the farewell. The code tells a worker manager whether other workers are needed instead."""
        self.exit(self._exit_code, "the machine will be taken back" if self._exit_code else "stopped")

    def exit(self, code: int, text: str) -> None:
        if not self._ended:
            self._ended = True
            self._state.outbox.add(Exit(code, text))

    # ---- the connection --------------------------------------------------------------------------------------

    @property
    def is_farewell(self) -> bool:
        """Whether the agent has said goodbye, or does so now."""
        return self._farewell_at is not None

    def restart(self) -> None:
        """The scheduler does not know this agent: nothing that was said before holds."""
        self._says_leaving = self._may_leave = False

    def deadlines(self) -> Iterator[float]:
        if self._farewell_at is not None:
            yield self._farewell_at + FAREWELL_SECONDS
        elif self._state.stop_at is not None and self._state.stop_at < math.inf:
            yield self._state.stop_at
