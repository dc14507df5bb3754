"""The newest lines of a log."""

from __future__ import annotations

import logging
import threading

from scaler_protocol.command.log_tail import LogTail, log_tail
from scaler_protocol.command.logs import PlainRecord
from scaler_protocol.log_lines import LIMIT_CHARACTERS, LINE_CHARACTERS, LINES_LIMIT, LatestLines, bounded
from scaler_protocol.messages import LogLine


def line(number: int, text: str = "text") -> LogLine:
    return LogLine(number, 1.0, 20, text)


def test_the_newest_lines_are_kept() -> None:
    log = LatestLines()
    assert all(log.add(line(number)) for number in range(2 * LINES_LIMIT))
    assert [each.number for each in log.lines] == [*range(LINES_LIMIT, 2 * LINES_LIMIT)]
    assert [each.number for each in log.newest(9)] == [198, 199]


def test_their_size_is_limited() -> None:
    log = LatestLines()
    for number in range(LINES_LIMIT):
        log.add(line(number, "x" * LINE_CHARACTERS))
    assert [each.number for each in log.lines] == [
        *range(LINES_LIMIT - LIMIT_CHARACTERS // LINE_CHARACTERS, LINES_LIMIT)
    ]
    log.add(line(LINES_LIMIT, "x" * 2 * LIMIT_CHARACTERS))
    assert not log.lines
    assert log.add(line(2**64 - 1)) and len(log.lines) == 1


def test_a_line_that_comes_again_changes_nothing() -> None:
    log = LatestLines()
    assert log.add(line(5)) and log.add(line(7))
    assert not (log.add(line(5)) or log.add(line(6)) or log.add(line(7)))
    assert [each.number for each in log.lines] == [5, 7]


def test_lines_of_peers_are_limited() -> None:
    (found,) = bounded([LogLine(1, -1.0, 20, "x" * 5000)])
    assert (found.time, len(found.text)) == (0.0, LINE_CHARACTERS)
    assert len(bounded(line(number) for number in range(1000))) == LINES_LIMIT


def record(text: str, *arguments: object, error: Exception | None = None) -> logging.LogRecord:
    trace = (type(error), error, None) if error is not None else None
    return PlainRecord("scaler", logging.WARNING, "file.py", 1, text, arguments, trace)  # type: ignore[arg-type]


def test_a_tail_has_each_line_once() -> None:
    tail = LogTail()
    tail.handle(record("one\n\x1b[2Jtwo"))
    tail.handle(record("three", error=ValueError("four")))
    lines = tail.take()
    assert [each.text for each in lines] == ["one\\n\\x1b[2Jtwo", "three", "ValueError: four"]
    assert [each.number for each in lines] == [0, 1, 2] and {each.level for each in lines} == {logging.WARNING}
    assert tail.take() == []


def test_a_flood_of_lines_leaves_out_the_oldest() -> None:
    tail = LogTail()
    threads = [threading.Thread(target=lambda: [tail.handle(record("x")) for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.number for each in tail.take()] == [*range(4000 - LINES_LIMIT, 4000)]


def test_a_record_that_cannot_be_written_is_left_out() -> None:
    tail = LogTail()
    tail.handle(record("%d", "no number"))
    assert tail.take() == []


def test_a_tail_listens_as_long_as_it_is_wanted() -> None:
    with log_tail() as tail:
        logging.getLogger("scaler").error("heard")
    logging.getLogger("scaler").error("not heard")
    assert [each.text for each in tail.take()] == ["heard"]
