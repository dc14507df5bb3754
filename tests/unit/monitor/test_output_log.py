"""What monitors keep and show of the output of tasks."""

from __future__ import annotations

import pickle

import pytest

from scaler_protocol.messages import OutputPiece, Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.failures import read_payload
from scaler_protocol.monitor.output_log import LIMIT_CHARACTERS, LINES_LIMIT, OutputLog, PrintedBy
from scaler_protocol.monitor.payloads import FAILURE_LIMIT_BYTES, kept_payload
from scaler_protocol.output_text import shown_lines, text_of

SESSION = b"s" * 16


def filled(*texts: bytes, task: int = 1) -> OutputLog:
    log = OutputLog()
    for text in texts:
        log.add(1.0, SESSION, task, 1, "price", "vm-0", 1, 0, text)
    return log


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\ntwo", ["one", "two"]),
        (b"\n", [""]),
        (b" 10%\r 20%\r\n", [" 20%"]),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07text\x1b[2J\x1b[H", ["red text"]),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        (b"a\tb", ["a       b"]),
        (b"\xff\xfe bell\x07 null\0", ["\N{REPLACEMENT CHARACTER}" * 2 + " bell? null?"]),
        ("\u202eesrever".encode(), ["?esrever"]),
    ],
)
def test_text_is_shown_without_what_could_harm_a_screen(data: bytes, lines: list[str]) -> None:
    assert shown_lines(data) == lines


def test_escapes_without_an_end_take_no_time() -> None:
    assert len(shown_lines(b"\x1b[" * 100_000 + b"\x1b]" * 100_000 + b"\x1bP" * 100_000)) == 1


def test_pieces_are_joined_within_a_line() -> None:
    def piece(data: bytes, stream: int = 1, left_out: int = 0) -> OutputPiece:
        return OutputPiece(SESSION, 7, 1, 0, stream, left_out, "price", "vm-0", data)

    pieces = [piece(b"one\ntw"), piece(b"o\n"), piece(b"error\n", 2), piece(b"end", 1, 2048)]
    assert text_of(pieces, False) == "one\ntwo\nerror\n[2.0 KiB of output are left out]\nend\n"
    assert text_of(pieces[:1], True) == "[price 7] one\n[price 7] tw\n"


def test_the_newest_lines_come_in_order() -> None:
    log = filled(*(b"line %d\n" % number for number in range(100)))
    lines, total = log.newest(PrintedBy(), 0, 3)
    assert ([line.text for line in lines], total) == (["line 97", "line 98", "line 99"], 100)
    lines, _ = log.newest(PrintedBy(), 98, 3)
    assert [line.text for line in lines] == ["line 0", "line 1"]
    lines, total = log.newest(PrintedBy(text="LINE 5"), 1, 2)
    assert ([line.text for line in lines], total) == (["line 57", "line 58"], 11)
    assert log.newest(PrintedBy(session=SESSION, task=2), 0, 9) == ([], 0)
    assert log.newest(PrintedBy(worker="vm-0", session=SESSION, task=1), 0, 200)[1] == 100


def test_memory_is_bounded() -> None:
    log = filled(*(b"x\n" * 1000 for _ in range(LINES_LIMIT // 1000 + 10)))
    assert len(log.lines) == LINES_LIMIT and log.total == LINES_LIMIT + 10_000
    log = filled(*(b"y" * 60_000 for _ in range(LIMIT_CHARACTERS // 4000 + 10)))
    assert sum(len(line.text) for line in log.lines) <= LIMIT_CHARACTERS
    assert log.lines[-1].text.endswith("(56,000 more characters)")


def test_records_keep_what_was_printed() -> None:
    data = records.output_record(
        2, b"\xfftext", function_name="f\u00fc", worker_name="w", left_out=9, task=3, time=1, session=0
    )
    (record,) = records.records(data)
    assert records.output_of(record) == records.PrintedText("f\u00fc", "w", 9, b"\xfftext")
    assert (record.first, record.flags) == (3, 2)


def test_cut_records_are_refused() -> None:
    data = records.output_record(1, b"x" * 100, function_name="f", worker_name="w", left_out=0, task=1, time=1)
    (record,) = records.records(data)
    for size in range(0, 100, 9):
        with pytest.raises(records.BadRecord):
            records.output_of(record._replace(body=record.body[:size]))


@pytest.mark.parametrize("size", [10, 100_000])
def test_failures_show_the_stderr_of_their_task(size: int) -> None:
    payload = pickle.dumps((b"", "ValueError", "m" * size, "Traceback" + "t" * size)) + b"first\nlast words\n"
    kept = kept_payload(Status.EXCEPTION, payload)
    assert len(kept) <= FAILURE_LIMIT_BYTES
    kind, _, details = read_payload(Status.EXCEPTION, kept)
    assert kind == "ValueError" and details.endswith("stderr:\n    first\n    last words")
