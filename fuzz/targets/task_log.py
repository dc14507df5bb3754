"""The log of ended tasks: columns and stretches that are cut off or cannot be, queries, pages, endings and bars.

Whatever was accepted is found again, nothing beyond the limit is kept, and what is cut off is a ValueError.
"""

from __future__ import annotations

from array import array

from fuzz.choices import Choices
from fuzz.events import INDICES, NUMBERS, a_record
from scaler_protocol.monitor import records
from scaler_protocol.monitor.records import BadRecord, Kind
from scaler_protocol.monitor.task_log import TaskLog
from scaler_protocol.monitor.task_stream import bars

CAPACITY = 100
SORTS = ("task", "ended_us", "duration_us", "session", "function", "worker", "attempt", "status")
MOST_STEPS = 32


def one_input(data: bytes) -> None:
    choices = Choices(data)
    log = TaskLog(CAPACITY)
    for _ in range(MOST_STEPS):
        if not choices.more:
            break
        before, total = len(log), log.total
        add(log, choices)
        assert log.total >= total and len(log) <= before + log.total - total
        check(log, choices)


def add(log: TaskLog, choices: Choices) -> None:
    operation = choices.below(4)
    index = choices.pick(INDICES)
    if operation == 0:
        ended, duration, attempt, status = choices.number(2), choices.number(2), choices.below(3), choices.below(14)
        log.append(choices.pick(NUMBERS), ended, duration, index, 1, 2, attempt, status)
        return
    try:
        if operation == 1:
            add_record(log, a_record(choices))
        elif operation == 2:
            short, count = choices.flag(), choices.pick([0, 1, 3, 8, 2**32 - 1])
            body = memoryview(choices.take(choices.below(64)))
            log.extend_stretch(index, 1, 2, choices.number(8), choices.pick(NUMBERS), 1, 0, count, short, body)
        else:
            body = memoryview(choices.take(choices.below(64)))
            count = choices.pick([0, 1, 3, 8, 2**32 - 1])
            log.extend_steps(index, 1, 2, choices.number(8), choices.pick(NUMBERS), 1, 0, count, body)
    except (ValueError, BadRecord):
        pass


def add_record(log: TaskLog, data: bytes) -> None:
    (record,) = records.records(data)
    if record.kind == Kind.ENDED:
        log.extend(0, record.function, 1, record.time, records.ended_columns(record), array("I", [5, 6]))


def check(log: TaskLog, choices: Choices) -> None:
    sort, descending = choices.pick(SORTS), choices.flag()
    wanted = {"statuses": [choices.below(13)]} if choices.flag() else {}
    found, count = log.query(sort=sort, descending=descending, offset=choices.below(8), limit=10, **wanted)  # type: ignore[arg-type]
    assert len(found) <= 10 and count <= len(log)
    rows = [log.row(serial) for serial in found]
    assert all(row is not None for row in rows)
    assert sum(page.count for page in log.pages()) == len(log)
    assert log.row(log.total) is None
    assert len(log.endings(choices.pick(INDICES), choices.pick(NUMBERS), choices.below(64))) >= 0
    start, width = choices.number(4), 1 + choices.below(300)
    drawn = bars(log, start, start + 1 + choices.number(4), width, [0, 2, 5])
    assert len(drawn) <= drawn.tasks
