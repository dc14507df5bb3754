"""WorkerCore: an agent whose tasks run in worker processes of this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.messages import Hello, Relay, RelayClosed, TaskColumn
from scaler_worker.board import Board
from scaler_worker.core.agent import BAD_INPUT_CODE, AgentCore, AgentSettings
from scaler_worker.core.effects import DispatchTasks, DropObjects, Interrupt, Resume, StartWorkerProcess, Suspend
from scaler_worker.core.objects import Store
from scaler_worker.core.slots import Slots
from scaler_worker.core.state import AgentState
from scaler_worker.core.task_timeouts import MEMORY


class WorkerCore:
    """An ``AgentCore`` with ``Slots``, and what happens to worker processes and to clients inside their tasks."""

    def __init__(
        self,
        settings: AgentSettings,
        hello: Hello,
        store: Store,
        now: float,
        handshake: PeerHandshake | None = None,
        read_output: Callable[[int], None] = lambda number: None,
    ) -> None:
        """``read_output``: as for ``HostOutput``."""
        self.state = AgentState(store, now)
        self.slots = Slots(
            settings.name,
            settings.worker_names,
            self.state,
            task_timeout_seconds=settings.task_timeout_seconds,
            process_limit=settings.process_limit,
            fixed_slots=settings.fixed_slots,
            suspends=settings.hard_processor_suspend,
            max_tasks_per_worker=settings.max_tasks_per_worker,
            recycle_memory_threshold_bytes=settings.recycle_memory_threshold_bytes,
            echo_streamed_output=settings.echo_streamed_output,
            read_output=read_output,
        )
        self.agent = agent = AgentCore(settings, hello, self.state, self.slots, now, handshake)
        self.on_connected, self.on_peer_lost = agent.on_connected, agent.on_peer_lost
        self.on_key_refused, self.on_obstacle = agent.on_key_refused, agent.on_obstacle
        self.on_message, self.take_effects = agent.on_message, agent.take_effects
        self.next_deadline = agent.next_deadline
        self.on_not_taken_in, self.on_stop, self.report = agent.on_not_taken_in, agent.on_stop, agent.report
        self.on_warnings, self.check = agent.on_warnings, agent.check
        self.on_store_status, self.on_store_lost = agent.on_store_status, agent.on_store_lost
        self.on_stored, self.on_not_stored = agent.on_stored, agent.on_not_stored
        self.on_stored_view = agent.on_stored_view
        self.on_packages_installed, self.on_packages_failed = agent.on_packages_installed, agent.on_packages_failed
        self.on_stack, self.on_software_read, self.on_logged = agent.on_stack, agent.on_software_read, agent.on_logged
        self.on_profile = agent.on_profile
        self.on_termination_notice = agent.on_termination_notice

    def on_deadline(self, now: float) -> None:
        self._end_closed(now)
        self.agent.on_deadline(now)

    # ---- worker processes ------------------------------------------------------------------------------------

    def on_worker_process_started(self, number: int, board: Board, pid: int, now: float) -> None:
        self.slots.on_started(number, board, pid)

    def on_worker_process_not_started(self, number: int, text: str, now: float) -> None:
        """This host has no room for it, at least now."""
        self.slots.on_not_started(number, text, now)

    def on_worker_process_not_forked(self, number: int, now: float) -> None:
        """The zygote ended before it forked this process; another one has taken its place."""
        self.slots.on_not_forked(number)

    def on_worker_process_ready(self, number: int, now: float) -> None:
        self.slots.on_ready(number, now)

    def on_worker_process_news(self, number: int, now: float) -> None:
        """There are results on its board."""
        self.agent.turn(now)
        self._end_closed(now)  # messages postpone the deadline of a busy agent
        self.slots.on_news(number, now)

    def on_written(self, number: int, stream: int, data: bytes) -> None:
        """A worker process has written this. ``on_printed`` follows, unless ``read_output`` has caused this."""
        self.slots.output.written(number, stream, data)

    def on_printed(self, number: int, now: float) -> None:
        """All of it was read for now."""
        self.agent.turn(now)
        self.slots.on_printed(number, now)

    def must_wait_to_print(self, number: int) -> bool:
        """Return whether no more may be read from this worker process for now."""
        return self.slots.output.must_wait(number)

    def on_worker_process_died(self, number: int, certificate: dict[str, Any], now: float) -> None:
        """``certificate``: what is known about this death, ready for JSON."""
        self.state.nested.worker_process_gone(number)
        self._end_closed(now)
        self.slots.on_died(number, certificate, now)

    def on_memory_exceeded(self, number: int, now: float) -> None:
        self.slots.end_by_number(number, MEMORY, now)

    def on_host_memory_exhausted(self, used_bytes: Mapping[int, int], limit_bytes: int, now: float) -> None:
        """``used_bytes``: of the busy worker processes, by number, without what they share with others."""
        self.slots.on_host_memory_exhausted(used_bytes, limit_bytes, now)

    def on_memory_measured(self, resident_bytes: Mapping[int, int], now: float) -> None:
        self.slots.on_memory_measured(resident_bytes)

    def on_failed_start(self, text: str, now: float) -> None:
        """A worker process cannot prepare itself, and no other could: the settings ask for something impossible."""
        self.agent.exit(BAD_INPUT_CODE, text)

    def on_not_carried_out(self, effect: Any, now: float) -> None:
        """The shell failed at this effect: nothing may wait for its consequences."""
        if isinstance(effect, StartWorkerProcess):
            self.slots.on_not_started(effect.number, "the agent failed at it", now)
        elif isinstance(effect, (DispatchTasks, Interrupt, Suspend, Resume, DropObjects)):
            self.slots.end_worker_process(effect.number)
        else:
            self.agent.on_not_carried_out(effect, now)

    # ---- clients inside tasks --------------------------------------------------------------------------------

    def on_nested_opened(self, session: bytes, parent: TaskColumn, now: float) -> None:
        """A client has connected; ``parent`` names the one task in which it lives."""
        attempt = parent.attempts[0] if parent.attempts else 0
        number = self.slots.number_running(parent.session, parent.tasks[0], attempt)
        self._unblock(self.state.nested.open(session, number))

    def on_nested_frames(self, session: bytes, frames: tuple[bytes, ...], now: float) -> None:
        self.state.unsent.append(Relay(session, frames))

    def on_nested_blocked(self, session: bytes, now: float) -> None:
        """A client inside a task waits for results: the slot of its task is lent."""
        self._block(self.state.nested.wait_for_results(session))

    def on_nested_waits_for_lock(self, session: bytes, now: float) -> None:
        """A client inside a task waits for a lock: the slot of its task is lent, perhaps to tasks of any depth."""
        self._block(self.state.nested.wait_for_lock(session))

    def _block(self, number: int | None) -> None:
        if number is not None:
            self.slots.block(number, for_a_lock=self.state.nested.waits_for_lock(number))

    def on_nested_unblocked(self, session: bytes, now: float) -> None:
        self._unblock(self.state.nested.go_on(session))

    def on_nested_closed(self, session: bytes, now: float) -> None:
        """The connection of a client has ended. It may come back, unless its worker process has ended."""
        self._unblock(self.state.nested.close(session, now))
        self._end_closed(now)

    def _unblock(self, number: int | None) -> None:
        if number is not None:
            self.slots.unblock(number)

    def _end_closed(self, now: float) -> None:
        if self.state.nested.closed:
            ended = self.state.nested.take_ended(now)
            self.state.unsent.extend(RelayClosed(session) for session in ended)
