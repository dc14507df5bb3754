from __future__ import annotations

from array import array
from random import Random

import pytest

from scaler_protocol.monitor.task_log import NO_WORKER, TaskLog
from scaler_protocol.monitor.task_stream import CANCELED, FAILED, SUCCEEDED, Bars, bars


def rows(found: Bars) -> list[tuple[int, float, float, int, int, int]]:
    """Row, left and right edge, function, status and number of tasks."""
    columns = (found.rows, found.x0, found.x1, found.functions, found.statuses, found.counts)
    return [(row, round(x0, 3), round(x1, 3), *rest) for row, x0, x1, *rest in zip(*columns, strict=True)]


def log_of(*tasks: tuple[int, int, int, int, int]) -> TaskLog:
    """Each: worker, begin, end, function, status."""
    log = TaskLog()
    for number, (worker, begin, end, function, status) in enumerate(tasks):
        log.append(number, end, end - begin, 0, function, worker, 1, status)
    return log


def test_a_wide_task_is_one_bar_with_exact_edges() -> None:
    log = log_of((0, 100, 255, 3, 0), (1, 300, 400, 4, 2))
    assert rows(bars(log, 0, 1000, 100, [0, 1])) == [(0, 10, 25.5, 3, SUCCEEDED, 1), (1, 30, 40, 4, FAILED, 1)]


def test_bars_end_at_the_edges() -> None:
    log = log_of((0, 0, 1000, 0, 0))
    assert rows(bars(log, 400, 500, 10, [0])) == [(0, 0, 10, 0, SUCCEEDED, 1)]
    assert rows(bars(log, 1001, 2000, 10, [0])) == []


def test_only_the_rows_asked_for_in_their_order() -> None:
    log = log_of((0, 0, 100, 0, 0), (1, 0, 100, 1, 0), (2, 0, 100, 2, 0), (NO_WORKER, 0, 100, 3, 0))
    assert [(row[0], row[3]) for row in rows(bars(log, 0, 100, 10, [2, 0]))] == [(1, 0), (0, 2)]
    assert [row[3] for row in rows(bars(log, 0, 100, 10, [NO_WORKER]))] == [3]


def test_tasks_narrower_than_a_pixel_are_merged_and_neighbours_that_look_alike_too() -> None:
    log = log_of(*((0, 10 * number, 10 * number + 8, 5, 0) for number in range(1000)))
    found = bars(log, 0, 10_000, 100, [0])
    assert rows(found) == [(0, 0, 100, 5, SUCCEEDED, 1000)]
    assert found.busy[0] == pytest.approx(0.8, abs=0.01)
    assert found.tasks == 1000


def test_a_pixel_shows_its_longest_task_and_its_worst_end() -> None:
    log = log_of((0, 0, 10, 1, 0), (0, 10, 60, 2, 4), (0, 60, 70, 3, 2), (0, 70, 80, 3, 0))
    found = bars(log, 0, 1000, 10, [0])
    assert rows(found) == [(0, 0, 1, 2, FAILED, 4)]
    assert list(found.serials) == [1]


def test_a_gap_between_merged_tasks_stays_a_gap() -> None:
    log = log_of((0, 0, 5, 1, 0), (0, 500, 505, 1, 0))
    assert [row[1:3] for row in rows(bars(log, 0, 1000, 10, [0]))] == [(0, 1), (5, 6)]


def test_cancels_are_told_from_failures() -> None:
    log = log_of((0, 0, 100, 1, 4), (0, 100, 200, 1, 0x80 | 5))
    assert [row[4] for row in rows(bars(log, 0, 200, 20, [0]))] == [CANCELED, FAILED]


@pytest.mark.parametrize("seed", range(5))
def test_any_number_of_tasks_gives_bars_that_pixels_can_show_and_loses_none(seed: int) -> None:
    random, log, workers, width = Random(seed), TaskLog(), 7, 50
    free = [0] * workers
    for number in range(20_000):
        worker = random.randrange(workers)
        begin = free[worker] + int(random.expovariate(1 / 40))
        free[worker] = begin + int(random.expovariate(1 / random.choice((5, 50, 5000))))
        log.append(number, free[worker], free[worker] - begin, 0, random.randrange(4), worker, 1, 0)
    found = bars(log, 0, max(free) + 1, width, range(workers))
    assert sum(found.counts) == found.tasks == 20_000
    assert len(found) <= 2 * width * workers
    assert all(0 <= x0 < x1 + 1e-3 <= width + 2e-3 for x0, x1 in zip(found.x0, found.x1, strict=True))
    for row in range(workers):
        places = [x0 for at, x0 in zip(found.rows, found.x0, strict=True) if at == row]
        assert [int(place) for place in places] == sorted(int(place) for place in places)


def test_tasks_that_overlap_without_end_stay_within_the_bound() -> None:
    log = log_of(*((0, number, 5000 + number, number % 3, 0) for number in range(5000)))
    found = bars(log, 0, 10_000, 20, [0])
    assert len(found) <= 41
    assert sum(found.counts) == 5000


def test_a_task_that_encloses_others_comes_before_them() -> None:
    log = log_of((0, 100, 200, 1, 0), (1, 100, 200, 2, 0), (0, 300, 301, 1, 2), (0, 400, 500, 1, 0), (0, 50, 600, 3, 4))
    assert rows(bars(log, 0, 1000, 100, [0, 1])) == [
        (0, 5, 60, 3, CANCELED, 1),
        (0, 10, 20, 1, SUCCEEDED, 1),
        (1, 10, 20, 2, SUCCEEDED, 1),
        (0, 30, 31, 1, FAILED, 1),
        (0, 40, 50, 1, SUCCEEDED, 1),
    ]
    found = bars(log, 0, 1000, 100, [0, 1])
    assert (list(found.serials), list(found.busy)) == ([4, 0, 1, 2, 3], [1, 1, 1, pytest.approx(0.1), 1])


def test_of_tasks_that_start_together_the_longest_comes_first() -> None:
    log = log_of((0, 100, 200, 1, 0), (0, 150, 300, 2, 0), (0, 100, 400, 3, 0), (0, 100, 400, 4, 0))
    assert [row[3] for row in rows(bars(log, 0, 1000, 100, [0]))] == [3, 4, 1, 2]


def test_nothing_to_show() -> None:
    assert len(bars(TaskLog(), 0, 1000, 100, [])) == 0
    assert len(bars(TaskLog(), 1000, 0, 0, [0])) == 0


def stretches(random: Random, count: int) -> tuple[TaskLog, TaskLog]:
    """The same tasks twice: in records of tasks that ended alike, and each on its own."""
    whole, single, time, first = TaskLog(), TaskLog(), 0, 0
    for _ in range(count):
        time += random.choice((0, 50, 5_000))
        worker, status, size = random.randrange(4), random.choice((0, 0, 0, 2, 4, 0x82)), random.randrange(1, 600)
        durations = array("H", (random.choice((3, 40, 900)) for _ in range(size)))
        ages = array("H", sorted((random.randrange(2_000) for _ in range(size)), reverse=True))
        whole.extend_stretch(7, worker, worker, time, first, 1, status, size, True, bytes(durations) + bytes(ages))
        for place, (duration, age) in enumerate(zip(durations, ages, strict=True)):
            single.append(first + place, time - age, duration, 7, worker, worker, 1, status)
        first += size
    return whole, single


@pytest.mark.parametrize("seed", range(4))
def test_tasks_that_were_recorded_together_are_drawn_as_if_each_had_been_alone(seed: int) -> None:
    random = Random(seed)
    whole, single = stretches(random, 250)
    assert whole.total == single.total
    end = max(max(page.column("ended_us")) for page in single.pages()) + 1
    for start, stop in ((0, end), (end // 3, end // 2), (end - 3_000, end), (-end, 5 * end)):
        for width in (20, 700):
            rows_shown = random.sample(range(4), 3)
            found, true = bars(whole, start, stop, width, rows_shown), bars(single, start, stop, width, rows_shown)
            assert rows(found) == rows(true)
            assert list(found.serials) == list(true.serials) and found.tasks == true.tasks
            assert list(found.busy) == pytest.approx(list(true.busy), rel=1e-3, abs=1e-4)
