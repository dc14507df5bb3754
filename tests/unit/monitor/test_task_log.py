from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

import pytest

from scaler_protocol.monitor.records import AGAIN, EndedColumns
from scaler_protocol.monitor.task_log import NO_WORKER, NOT_ENDED, PAGE_ROWS, TaskLog, TaskNumbers, extent


def view(code: str, values: Sequence[int]) -> memoryview:
    return memoryview(array(code, values))


def columns(count: int, *, first: int = 0, **given: Sequence[int]) -> EndedColumns:
    functions, ages, workers = (given.get(name) for name in ("functions", "ages", "workers"))
    return EndedColumns(
        view("Q", range(first, first + count)),
        view("Q", given.get("durations", [100] * count)),
        view("I", [1] * count),
        view("I", functions) if functions is not None else None,
        view("I", ages) if ages is not None else None,
        view("H", workers) if workers is not None else None,
        view("B", given.get("statuses", [0] * count)),
    )


def log_of(count: int, capacity: int = 1_000_000, **given: Sequence[int]) -> TaskLog:
    log = TaskLog(capacity)
    log.extend(0, 0, 0, 1_000_000, columns(count, **given), array("I"))
    return log


def test_a_record_becomes_rows() -> None:
    log = TaskLog()
    given = columns(3, first=7, functions=[5, 6, 5], ages=[30, 20, 10], workers=[1, 0, 0xFFFF], statuses=[0, 2, 4])
    log.extend(9, 1, 77, 1_000_000, given, array("I", [40, 41]))
    assert log.row(0) == (7, 999_970, 100, 9, 5, 41, 1, 0)
    assert log.row(1) == (8, 999_980, 100, 9, 6, 40, 1, 2)
    assert log.row(2) == (9, 999_990, 100, 9, 5, 77, 1, 4)
    assert log.row(3) is None


def test_what_a_record_says_once_is_true_of_all_its_rows() -> None:
    log = TaskLog()
    log.extend(9, 3, NO_WORKER, 1_000_000, columns(2), array("I"))
    assert log.row(1) == (1, 1_000_000, 100, 9, 3, NO_WORKER, 1, 0)


@pytest.mark.parametrize("code", ["H", "I"])
def test_tasks_in_a_row_that_ended_alike(code: str) -> None:
    log, count = TaskLog(), PAGE_ROWS + 10
    durations, ages = range(count), range(count, 0, -1)
    values = [each % 60_000 for each in (*durations, *ages)]
    given = memoryview(array(code, values)).cast("B")
    log.extend_stretch(9, 3, 41, 1_000_000, 500, 2, 4, count, code == "H", given)
    assert (log.total, log.ended) == (count, count)
    for row in (0, PAGE_ROWS - 1, PAGE_ROWS, count - 1):
        end = 1_000_000 - (count - row) % 60_000
        assert log.row(row) == (500 + row, end, row % 60_000, 9, 3, 41, 2, 4)
    log.extend_stretch(9, 3, 41, 1_000_000, 0, 2, 5 | AGAIN, count, code == "H", given)
    assert (log.total, log.ended) == (2 * count, count)
    with pytest.raises(ValueError, match="cut off"):
        log.extend_stretch(9, 3, 41, 1_000_000, 0, 2, 4, count, code == "H", given[:-1])


def test_tasks_in_a_row_with_their_steps() -> None:
    log, count = TaskLog(), PAGE_ROWS + 10
    steps = struct.pack("<II", count, 1) + bytes(row % 255 for row in range(count - 1)) + b"\xff"
    steps += b"\0" + b"\1" * (count - 1) + struct.pack("<I", 90_000)
    log.extend_steps(9, 3, 41, 1_000_000, 500, 2, 4, count, memoryview(steps))
    assert (log.total, log.ended) == (count, count)
    for row in (0, PAGE_ROWS - 1, PAGE_ROWS, count - 1):
        duration = row % 255 if row < count - 1 else 90_000
        assert log.row(row) == (500 + row, 1_000_000 - (count - row), duration, 9, 3, 41, 2, 4)
    for broken in (steps[:-1], steps[:7], steps[:4] + b"\0\0\0\0" + steps[8:]):
        with pytest.raises(ValueError):
            log.extend_steps(9, 3, 41, 1_000_000, 500, 2, 4, count, memoryview(broken))
    assert log.total == count


def test_the_oldest_page_goes_and_serials_stay() -> None:
    log = TaskLog(PAGE_ROWS)
    for start in range(0, 4 * PAGE_ROWS, PAGE_ROWS // 2):
        log.extend(0, 0, 0, 1, columns(PAGE_ROWS // 2, first=start), array("I"))
        assert min(log.total, PAGE_ROWS) <= len(log) <= 2 * PAGE_ROWS
    assert log.total == 4 * PAGE_ROWS
    assert log.row(log.first)[0] == log.first
    assert log.row(log.first - 1) is None
    assert log.row(log.total - 1)[0] == log.total - 1


def test_records_larger_than_a_page() -> None:
    log = log_of(2 * PAGE_ROWS + 10)
    assert len(log) == 2 * PAGE_ROWS + 10
    assert [page.count for page in log.pages()] == [PAGE_ROWS, PAGE_ROWS, 10]
    assert log.row(PAGE_ROWS)[0] == PAGE_ROWS


def test_columns_are_not_copied_and_outlive_their_page() -> None:
    log = TaskLog(1)
    log.append(5, 10, 1, 0, 0, 0)
    page = log.pages()[0]
    tasks = page.column("task")
    log.extend(0, 0, 0, 1, columns(3 * PAGE_ROWS), array("I"))
    assert log.first > 0
    assert list(tasks) == [5]
    assert page.column("task")[:2].tolist() == [5, 0]


def test_the_newest_come_first_and_pages_of_rows_join() -> None:
    log = log_of(PAGE_ROWS + 100)
    everything = [log.query(offset=offset, limit=1000) for offset in range(0, PAGE_ROWS + 100, 1000)]
    assert all(total == PAGE_ROWS + 100 for _, total in everything)
    assert [serial for serials, _ in everything for serial in serials] == list(range(PAGE_ROWS + 99, -1, -1))
    assert log.query(descending=False, limit=3)[0] == [0, 1, 2]


def test_conditions() -> None:
    log = log_of(8, functions=[0, 1, 2, 1, 0, 1, 2, 1], statuses=[0, 0, 2, 2, 4, 0, 0, 2])
    assert log.query(functions=[1]) == ([7, 5, 3, 1], 4)
    assert log.query(functions=[1], statuses=[2]) == ([7, 3], 2)
    assert log.query(functions=[0], statuses=[2], any_of=True) == ([7, 4, 3, 2, 0], 5)
    assert log.query(task=6) == ([6], 1)
    assert log.query(functions=[]) == ([], 0)
    assert log.query(functions=[1], offset=1, limit=2) == ([5, 3], 4)
    assert log.query(workers=[NO_WORKER, 5]) == ([], 0)


@pytest.mark.parametrize("descending", [False, True])
def test_other_orders_are_those_of_a_full_sort(descending: bool) -> None:
    durations = [(number * 7919) % 1000 for number in range(5000)]
    log = log_of(5000, durations=durations)
    serials, total = log.query(sort="duration_us", descending=descending, offset=100, limit=50)
    expected = sorted(durations, reverse=descending)[100:150]
    assert [durations[serial] for serial in serials] == expected
    assert total == 5000


def test_tasks_of_any_number_of_sessions_are_sorted_and_found_by_their_numbers() -> None:
    log, numbers, true = TaskLog(), TaskNumbers(), {}
    sessions = [*range(0, 64_000, 64), 2**32 - 1]
    for session in sessions:
        for again in (5, session % 1000):  # the later numbers count
            numbers.add(session, array("Q", [10, 30]), array("Q", [20, 31]), array("q", [again, again + 1]))
        for task in (9, 10, 19, 20, 30, 31, 2**64 - 1):
            number = session % 1000 if 10 <= task < 20 else session % 1000 + 1 if task == 30 else -1
            true[log.total] = number
            log.append(task, log.total, 1, session, 0, 0)
    numbers.add(7, array("Q"), array("Q"), array("q"))
    log.append(10, log.total, 1, 7, 0, 0)  # without any
    found, total = log.query(numbered=numbers, limit=10**6, descending=False)
    assert (found, total) == ([serial for serial, number in true.items() if number >= 0], 3 * len(sessions))
    ordered, total = log.query(sort="number", sort_numbers=numbers, limit=3 * len(sessions))
    assert ordered == sorted(found, key=lambda serial: (true[serial], serial), reverse=True)
    assert total == len(log)
    with pytest.raises(ValueError, match="differ"):
        numbers.add(8, array("Q", [1]), array("Q"), array("q"))


def test_endings_say_how_each_task_of_a_range_ended() -> None:
    log = log_of(4, statuses=[0, 2, 4, 2 | AGAIN])
    assert list(log.endings(0, 0, 6)) == [0, 2, 4, NOT_ENDED, NOT_ENDED, NOT_ENDED]
    assert list(log.endings(1, 0, 1)) == [NOT_ENDED]
    assert (log.total, log.ended) == (4, 3)


def test_extent_of_a_column_of_workers() -> None:
    assert extent(view("H", [3, 0, 7])) == (7, False)
    assert extent(view("H", [0xFFFF, 2])) == (2, True)
    assert extent(view("H", [])) == (-1, False)


def test_clear() -> None:
    log = log_of(10)
    log.clear()
    assert (len(log), log.total, log.query()) == (0, 0, ([], 0))
