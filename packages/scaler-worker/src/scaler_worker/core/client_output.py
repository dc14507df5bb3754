"""The output of tasks on its way to the clients that asked for it.

| Unacknowledged bytes | Consequence |
|---|---|
| up to ``BUDGET_BYTES`` | all is sent |
| more, and the scheduler is connected | tasks that print for a client wait |
| more, and the scheduler is away | they do not wait, and up to ``LIMIT_BYTES`` are kept for it |
| ``LIMIT_BYTES`` | further output is left out, and the next message for that client says how much |
"""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.messages import Output
from scaler_worker.core.state import AgentState

BUDGET_BYTES = 4 * 1024 * 1024
LIMIT_BYTES = 8 * 1024 * 1024
MESSAGE_BYTES = 64 * 1024
STDERR = 2

CLIENTS_LIMIT = 10_000
"""Limit of clients for which it is known how much was left out."""


class ClientOutput:
    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._bytes = 0
        self._left_out: dict[bytes, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether tasks that print for a client must wait."""
        return self._bytes > BUDGET_BYTES and self._state.welcomed

    def add(self, session: bytes, task: int, stream: int, data: bytes) -> None:
        if self._bytes + len(data) > LIMIT_BYTES:
            self._leave_out(session, len(data))
            return
        if self._left_out and session in self._left_out:
            data = b"\n[%d bytes of output were left out]\n" % self._left_out.pop(session) + data
        self._bytes += len(data)
        self._state.output_waits |= self.is_full
        for start in range(0, len(data), MESSAGE_BYTES):
            self._append(Output(session, task, stream, data[start : start + MESSAGE_BYTES]))

    def add_warnings(self, session: bytes, task: int, data: bytes) -> None:
        """A task has raised warnings, which its client issues."""
        if self._bytes + len(data) <= LIMIT_BYTES:
            self._bytes += len(data)
            self._state.unsent.append(Output(session, task, STDERR, b"", data))

    def release(self, acknowledged: int) -> None:
        """The scheduler has received the messages up to this number."""
        for sequence in [each for each in self._state.output_sizes if each <= acknowledged]:
            self._bytes -= self._state.output_sizes.pop(sequence)

    def restart(self) -> None:
        """Another scheduler: what the last one has not received is lost, except for what has not been sent."""
        self._state.output_sizes.clear()
        self._bytes = 0

    def _append(self, output: Output) -> None:
        last = self._state.unsent[-1] if self._state.unsent else None
        if isinstance(last, Output) and _belong_together(last, output):
            self._state.unsent[-1] = replace(last, data=last.data + output.data)
        else:
            self._state.unsent.append(output)

    def _leave_out(self, session: bytes, count: int) -> None:
        if session in self._left_out or len(self._left_out) < CLIENTS_LIMIT:
            self._left_out[session] = self._left_out.get(session, 0) + count


def _belong_together(first: Output, second: Output) -> bool:
    same = (first.session, first.task, first.stream) == (second.session, second.task, second.stream)
    return same and not first.warnings and len(first.data) + len(second.data) <= MESSAGE_BYTES
