"""Output of the tasks of a host, and where it goes: into the log of the agent, to clients, to monitors, and into
the kept output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from scaler_worker.core.client_output import ClientOutput
from scaler_worker.core.effects import Echo
from scaler_worker.core.kept_output import KeptOutput
from scaler_worker.core.monitor_output import MonitorOutput
from scaler_worker.core.process_output import ProcessOutput, Writer
from scaler_worker.core.state import AgentState
from scaler_worker.core.worker_process import WorkerProcess


class HostOutput:
    """``read(number)`` has what this worker process has written by now handed to ``written``."""

    def __init__(self, state: AgentState, echoes_streamed: bool, read: Callable[[int], None]) -> None:
        self._state = state
        self._echoes_streamed = echoes_streamed
        self._read = read
        self._processes: dict[int, ProcessOutput] = {}
        self.kept = KeptOutput()
        self.to_clients = ClientOutput(state)
        self.to_monitors = MonitorOutput(state)
        self._now = 0.0

    def on_started(self, process: WorkerProcess) -> None:
        """Learn from the board, from now on, which task has printed."""
        assert process.board is not None
        output = ProcessOutput(process, self._pass_on, partial(self._read, process.number))
        process.board.output = self._processes[process.number] = output

    def written(self, number: int, stream: int, data: bytes) -> None:
        output = self._processes.get(number)
        if output is not None:
            output.add(stream, data)

    def settle(self, number: int, harvest: Callable[[], None], now: float) -> None:
        """Pass on what was read. ``harvest`` takes the results from the board of this process."""
        self._now = now
        output = self._processes.get(number)
        if output is not None:
            output.settle(harvest)

    def on_died(self, process: WorkerProcess) -> None:
        """Finish the output of a worker process that has died. Its results were harvested, and all that it wrote was
        read."""
        output = self._processes.pop(process.number, None)
        if output is not None and process.board is not None:
            output.on_died(process.board.running)

    def must_wait(self, number: int) -> bool:
        """Return whether the task that this process runs has to wait before it prints more."""
        output = self._processes.get(number)
        return self.to_clients.is_full and output is not None and output.streams

    def _pass_on(self, writer: Writer, stream: int, text: bytes) -> None:
        self.kept.add(writer, stream, text)
        self.to_monitors.add(writer, stream, text, self._now)
        if writer.streams:
            self.to_clients.add(writer.session, writer.task, stream, text)
        if self._echoes_streamed or not writer.streams:
            self._state.outbox.add(Echo(stream, text))
