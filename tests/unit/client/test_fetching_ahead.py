"""Which large results are fetched while the application waits for an earlier one."""

from __future__ import annotations

from typing import Any

from scaler.client.fetching import WINDOW_BYTES
from scaler.client.fetching_ahead import FetchingAhead
from scaler.client.future import ScalerFuture


class Result(ScalerFuture[Any]):
    """``size``: of a large result; 0: it is not large; None: its task has not ended."""

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.is_fetched = False

    @property
    def unfetched_bytes(self) -> int | None:
        return 0 if self.is_fetched else self.size

    def fetch_ahead(self) -> None:
        self.is_fetched = True


def fetched(results: list[Result]) -> list[int]:
    return [place for place, each in enumerate(results) if each.is_fetched]


def test_a_few_are_under_way_however_large_they_are():
    results = [Result(WINDOW_BYTES) for _ in range(10)]
    ahead = FetchingAhead(results)
    ahead.reach(0)
    assert fetched(results) == [0, 1, 2, 3]
    ahead.reach(1)
    assert fetched(results) == [0, 1, 2, 3, 4]
    ahead.reach(9)
    assert fetched(results) == [0, 1, 2, 3, 4, 9]


def test_small_ones_fill_the_window():
    results = [Result(WINDOW_BYTES // 100) for _ in range(300)]
    ahead = FetchingAhead(results)
    ahead.reach(0)
    assert fetched(results) == list(range(100))
    ahead.reach(50)
    assert fetched(results) == list(range(150))


def test_results_that_are_here_take_no_room():
    results = [Result(0) for _ in range(1000)] + [Result(10)]
    FetchingAhead(results).reach(0)
    assert fetched(results) == [1000]


def test_it_goes_on_where_a_task_had_not_ended():
    results = [Result(10), Result(None), Result(10)]
    ahead = FetchingAhead(results)
    ahead.reach(0)
    assert fetched(results) == [0]
    results[1].size = 10
    ahead.reach(0)
    assert fetched(results) == [0, 1, 2]


def test_a_result_that_was_taken_although_its_task_failed_holds_nothing_up():
    results = [Result(None), Result(10)]
    ahead = FetchingAhead([*results, "no future"])
    ahead.reach(1)
    assert fetched(results) == [1]
