"""Which task has written what, in whole lines."""

from __future__ import annotations

from scaler_protocol.limits import NO_WORKER
from scaler_protocol.messages import TaskOptions
from scaler_worker.board import DispatchedRun
from scaler_worker.core.kept_output import HEAD_LIMIT_BYTES, TAIL_LIMIT_BYTES, KeptOutput
from scaler_worker.core.monitor_output import HEAD_BYTES, TAIL_BYTES, _Written
from scaler_worker.core.process_output import FAILURE_STDERR_BYTES, LINE_LIMIT_BYTES, ProcessOutput, Writer
from tests.unit.worker.playbook import CLIENT, run_of

WRITER = Writer(CLIENT, 1, 1, "f", "vm-0", 0, False)


class FakeBoard:
    """The words of a board that matter here."""

    def __init__(self) -> None:
        self.unordered = False
        self.running: int | None = None
        self.marks = {1: 0, 2: 0}

    def output_mark(self, stream: int) -> int:
        return self.marks[stream]


class FakeProcess:
    """A process with two tasks, of the sequences 0 and 1 and the numbers 10 and 11."""

    name, place, actor, number = "vm-0", 0, None, 0

    def __init__(self) -> None:
        self.board = FakeBoard()
        self.entry = DispatchedRun(run_of(2, first=10, options=TaskOptions(stream_output=True)), 0)
        self.dispatched = [self.entry]
        self.busy = True

    def entry_of(self, sequence: int) -> DispatchedRun:
        return self.entry


class Conversation:
    """What a process writes, and what is passed on: task, stream and text. None: no task."""

    def __init__(self) -> None:
        self.process = FakeProcess()
        self.passed: list[tuple[int | None, int, bytes]] = []
        self.later: list[tuple[int, bytes]] = []
        self.output = ProcessOutput(self.process, self.pass_on, self.read)  # type: ignore[arg-type]

    def pass_on(self, writer: Writer, stream: int, text: bytes) -> None:
        self.passed.append((writer.task if writer.session else None, stream, text))

    def read(self) -> None:
        """What is in the pipes."""
        for stream, data in self.later:
            self.output.add(stream, data)
        self.later.clear()

    def write(self, data: bytes, stream: int = 1) -> None:
        self.output.add(stream, data)
        self.output.settle(lambda: None)

    def end(self, sequence: int, stdout: tuple[int, int], stderr: tuple[int, int] = (0, 0)) -> bytes:
        return self.output.on_task_ended(self.process.entry, sequence, stdout, stderr)


def test_text_of_the_running_task_is_passed_on_at_once() -> None:
    stage = Conversation()
    stage.process.board.running = 1
    stage.write(b"one\ntw")
    stage.write(b"o\n")
    assert stage.passed == [(11, 1, b"one\n"), (11, 1, b"two\n")]


def test_text_that_was_written_between_tasks_belongs_to_none() -> None:
    stage = Conversation()
    stage.output.add(1, b"thread\nmine\nthread\n")
    stage.end(0, (7, 12))
    stage.process.board.marks[1] = 19
    stage.output.settle(lambda: None)
    assert stage.passed == [(None, 1, b"thread\n"), (10, 1, b"mine\n"), (None, 1, b"thread\n")]


def test_nothing_is_decided_while_the_process_is_between_two_tasks() -> None:
    stage = Conversation()
    stage.write(b"whose?\n")
    assert stage.passed == []
    stage.end(0, (0, 7))
    assert stage.passed == [(10, 1, b"whose?\n")]


def test_an_idle_process_writes_for_no_task() -> None:
    stage = Conversation()
    stage.process.busy, stage.process.dispatched = False, []
    stage.write(b"late\n")
    assert stage.passed == [(None, 1, b"late\n")]


def test_a_task_may_begin_while_the_board_is_read() -> None:
    """The text is that of the task whose result has been harvested meanwhile, and what follows it is undecided."""
    stage = Conversation()
    stage.process.board.running = 0
    stage.output.add(1, b"first\nsecond\n")

    def harvest() -> None:
        stage.end(0, (0, 6))
        stage.process.board.running = 1

    stage.output.settle(harvest)
    assert stage.passed == [(10, 1, b"first\n")]
    stage.output.settle(lambda: None)
    assert stage.passed[1:] == [(11, 1, b"second\n")]


def test_what_is_still_in_the_pipe_is_read_before_a_task_ends() -> None:
    stage = Conversation()
    stage.later = [(1, b"end"), (2, b"error\n")]
    assert stage.end(0, (0, 3), (0, 6)) == b"error\n"
    assert stage.passed == [(10, 2, b"error\n"), (10, 1, b"end")]


def test_the_rest_of_a_line_ends_with_its_task() -> None:
    stage = Conversation()
    stage.process.board.running = 0
    stage.write(b"no newline")
    assert stage.passed == []
    stage.end(0, (0, 10))
    assert stage.passed == [(10, 1, b"no newline")]


def test_progress_bars_and_long_lines_are_passed_on() -> None:
    stage = Conversation()
    stage.process.board.running = 0
    stage.write(b"\r 10%\r 20%")
    stage.write(b"x" * LINE_LIMIT_BYTES, 2)
    stage.write(b"x", 2)
    assert stage.passed == [(10, 1, b"\r 10%\r"), (10, 2, b"x" * (LINE_LIMIT_BYTES + 1))]


def test_a_failure_gets_the_end_of_the_stderr_of_its_task_only() -> None:
    stage = Conversation()
    stage.process.board.running = 0
    stage.write(b"earlier\n", 2)
    assert stage.end(0, (0, 0), (0, 8)) == b"earlier\n"
    stage.process.board.running = 1
    stage.write(b"y" * 2 * FAILURE_STDERR_BYTES, 2)
    assert stage.end(1, (0, 0), (8, 8 + 2 * FAILURE_STDERR_BYTES)) == b"y" * FAILURE_STDERR_BYTES


def test_impossible_positions_take_what_there_is() -> None:
    stage = Conversation()
    stage.output.add(1, b"text\n")
    stage.end(0, (0, 2**64 - 1))
    stage.end(1, (2**63, 5))
    stage.process.board.marks[1] = 2**64 - 1
    stage.output.settle(lambda: None)
    assert stage.passed == [(10, 1, b"text\n")]


def test_the_text_of_a_task_that_dies_is_its_own() -> None:
    stage = Conversation()
    stage.output.add(2, b"last words")
    stage.output.on_died(1)
    assert stage.passed == [(11, 2, b"last words")]


def test_of_much_text_the_beginning_and_the_end_are_kept() -> None:
    kept = KeptOutput()
    for number in range(1000):
        kept.add(WRITER, 1, b"%0999d\n" % number)
    kept.check()
    pieces = kept.of_task(CLIENT, 1)
    size = sum(len(piece.data) for piece in pieces)
    assert size == HEAD_LIMIT_BYTES + TAIL_LIMIT_BYTES
    assert sum(piece.left_out for piece in pieces) == 1_000_000 - size
    assert pieces[0].data.startswith(b"0" * 999 + b"\n") and pieces[-1].data.endswith(b"999\n")


def test_the_tasks_that_have_printed_least_recently_are_dropped() -> None:
    kept = KeptOutput(limit_bytes=100_000)
    for number in range(1000):
        kept.add(WRITER._replace(task=number), 1, b"x" * 500)
    kept.check()
    assert kept.of_task(CLIENT, 0) == [] and len(kept.of_task(CLIENT, 999)) == 1
    assert [piece.task for piece in kept.of_worker("vm-0")][-2:] == [998, 999]


def test_what_a_task_writes_at_once_is_cut_for_monitors_between_lines() -> None:
    written = _Written()
    for _ in range(100):
        written.add(b"x" * 999 + b"\n")
    head, tail = written.pieces(WRITER._replace(place=NO_WORKER), 1, 0)
    assert len(head.data) <= HEAD_BYTES and len(tail.data) <= TAIL_BYTES
    assert head.data.endswith(b"\n") and tail.data.startswith(b"x" * 999 + b"\n")
    assert len(head.data) + len(tail.data) + tail.left_out == 100_000
