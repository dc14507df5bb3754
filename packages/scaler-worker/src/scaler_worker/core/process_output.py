"""The text that one worker process writes, divided among its tasks, in whole lines.

The agent reads two pipes; the board says which part of them belongs to which task:

| Bytes | Belong to |
|---|---|
| between the two positions in the result of a task | that task |
| before the mark on the board, and in no result | no task: what a task has left behind wrote them |
| after the mark, while one and the same task runs before and after the board was read | that task |
| after the mark, while the process has no task | no task |
| after the mark, in the process of an actor that runs several calls at a time | the actor |
| other bytes after the mark | to be decided when more is known |

Text is passed on in whole lines. A carriage return also ends a line, for progress bars. The rest of a line is passed on
when its task ends, when another writer follows, or when it exceeds ``LINE_LIMIT_BYTES``. A hostile task that
overwrites the board can only attribute text of its process to another task of the same process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scaler_protocol.codec import TaskRun
from scaler_protocol.limits import NO_WORKER
from scaler_worker.board import DispatchedRun
from scaler_worker.core.worker_process import WorkerProcess

STDOUT, STDERR = 1, 2

LINE_LIMIT_BYTES = 16 * 1024
UNDECIDED_LIMIT_BYTES = 1024 * 1024
"""Limit of text whose writer is not known yet; more of it belongs to no task."""

FAILURE_STDERR_BYTES = 8 * 1024
"""Limit of the stderr that goes with the failure of a task."""

_NO_SEQUENCE = -1


class Writer(NamedTuple):
    """A task, or with an empty session, a worker process outside of tasks. ``place``: of its worker, as in results."""

    session: bytes
    task: int
    attempt: int
    function: str
    worker: str
    place: int
    streams: bool
    """The client receives the output."""


class _Stream:
    """``position``: of the first byte of ``undecided``. ``rest``: the beginning of a line, of the current writer."""

    def __init__(self) -> None:
        self.position = 0
        self.undecided = bytearray()
        self.rest = b""

    def take(self, end: int) -> bytes:
        """Remove the bytes before this position."""
        count = min(max(0, end - self.position), len(self.undecided))
        data = bytes(self.undecided[:count])
        del self.undecided[:count]
        self.position += count
        return data

    @property
    def end(self) -> int:
        return self.position + len(self.undecided)


class ProcessOutput:
    """``pass_on(writer, stream, text)`` receives whole lines. ``read()`` gives what was written so far to ``add``."""

    def __init__(
        self, process: WorkerProcess, pass_on: Callable[[Writer, int, bytes], None], read: Callable[[], None]
    ) -> None:
        self._process = process
        self._pass_on = pass_on
        self._read = read
        self._streams = {STDOUT: _Stream(), STDERR: _Stream()}
        self._current, self._sequence = self._outside(), _NO_SEQUENCE
        self._stderr_tail = b""

    @property
    def streams(self) -> bool:
        """Whether the latest text goes to a client."""
        return self._current.streams

    def add(self, stream: int, data: bytes) -> None:
        """The agent has read this."""
        self._streams[stream].undecided += data

    def on_task_ended(
        self, entry: DispatchedRun, sequence: int, stdout: tuple[int, int], stderr: tuple[int, int]
    ) -> bytes:
        """A task has written the text between these positions. Returns the end of its stderr, for its failure."""
        places = {STDOUT: stdout, STDERR: stderr}
        if any(end > self._streams[stream].end for stream, (_, end) in places.items()):
            self._read()
        for stream, (start, end) in places.items():
            self._give(None, _NO_SEQUENCE, stream, self._streams[stream].take(start))
            self._give(entry, sequence, stream, self._streams[stream].take(end))
        tail = self._stderr_tail if self._sequence == sequence else b""
        self._change_writer(None, _NO_SEQUENCE)
        return tail

    def on_actor_made(self) -> None:
        """Give the actor of the process what is written outside of tasks from now on."""
        self._change_writer(None, _NO_SEQUENCE)

    def settle(self, harvest: Callable[[], None]) -> None:
        """Decide who has written what was read. ``harvest`` takes the results from the board, which calls
        ``on_task_ended``."""
        board = self._process.board
        assert board is not None
        running = board.running
        marks = {stream: board.output_mark(stream) for stream in self._streams}
        harvest()
        for stream, mark in marks.items():
            self._give(None, _NO_SEQUENCE, stream, self._streams[stream].take(mark))
        if running == board.running:
            self._settle_rest(running)
        for each in self._streams.values():
            if len(each.undecided) > UNDECIDED_LIMIT_BYTES:
                self._settle_rest(None)

    def on_died(self, running: int | None) -> None:
        """The process has ended, and all that it wrote was read. ``running``: the task that it ran."""
        self._settle_rest(running)
        self._change_writer(None, _NO_SEQUENCE)

    def _settle_rest(self, running: int | None) -> None:
        entry = self._process.entry_of(running) if running is not None else None
        if entry is None and self._process.dispatched and running is not None:
            return
        if running is None and self._process.busy and not (self._is_full or self._runs_several):
            return
        for stream, each in self._streams.items():
            self._give(entry, running if running is not None else _NO_SEQUENCE, stream, each.take(each.end))

    @property
    def _runs_several(self) -> bool:
        """Several tasks may run at a time, which are calls of an actor: the text is that of the actor."""
        return self._process.board is not None and self._process.board.unordered

    @property
    def _is_full(self) -> bool:
        return any(len(each.undecided) > UNDECIDED_LIMIT_BYTES for each in self._streams.values())

    # ---- lines -----------------------------------------------------------------------------------------------------

    def _give(self, entry: DispatchedRun | None, sequence: int, stream: int, data: bytes) -> None:
        if not data:
            return
        if sequence != self._sequence:
            self._change_writer(entry, sequence)
        if stream == STDERR:
            self._stderr_tail = (self._stderr_tail + data)[-FAILURE_STDERR_BYTES:]
        text = self._streams[stream].rest + data
        end = _end_of_lines(text)
        self._streams[stream].rest = text[end:]
        if end:
            self._pass_on(self._current, stream, text[:end])

    def _change_writer(self, entry: DispatchedRun | None, sequence: int) -> None:
        for stream, each in self._streams.items():
            if each.rest:
                self._pass_on(self._current, stream, each.rest)
                each.rest = b""
        self._current = self._outside() if entry is None else self._writer(entry.run, _task(entry, sequence))
        self._sequence = sequence
        self._stderr_tail = b""

    def _outside(self) -> Writer:
        """Outside of tasks; in the process of an actor, that is the task that has made the actor."""
        actor = self._process.actor
        if actor is not None and actor.is_live:
            return self._writer(actor.run, actor.run.first_task)
        return Writer(b"", 0, 0, "", self._process.name, self._place, False)

    def _writer(self, run: TaskRun, task: int) -> Writer:
        name, streams = run.function_name, run.options.stream_output
        return Writer(run.session, task, run.attempt, name, self._process.name, self._place, streams)

    @property
    def _place(self) -> int:
        return min(self._process.place, NO_WORKER)


def _task(entry: DispatchedRun, sequence: int) -> int:
    return entry.first_task + sequence - entry.first_sequence


def _end_of_lines(text: bytes) -> int:
    """Find where the last line ends, or the last chunk of a line that is too long."""
    end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
    return end if len(text) - end <= LINE_LIMIT_BYTES else len(text)
