"""How many workers each manager should run, as a function of what waits and what exists."""

from __future__ import annotations

from scaler_scheduler.core.scaling import needs_of
from scaler_scheduler.core.supplies import Demand, RecentlyBusy, RecentNeeds, Supply

TARGET_SECONDS = 60.0
GPU = (("gpu", 1_000_000),)


def needs(demands: list[Demand], *supplies: Supply) -> dict[str, int]:
    return needs_of(demands, supplies, TARGET_SECONDS)


def test_enough_workers_to_finish_in_time() -> None:
    cloud = Supply("cloud", {}, 0, 100, 1.0)
    assert needs([Demand((), 10_000, 1000.0)], cloud) == {"cloud": 17}
    assert needs([Demand((), 10_000, 0.001)], cloud) == {"cloud": 1}
    assert needs([], cloud) == {"cloud": 0}


def test_no_more_workers_than_tasks() -> None:
    assert needs([Demand((), 3, 1e6)], Supply("cloud", {}, 0, 100, 1.0)) == {"cloud": 3}


def test_the_bounds_hold() -> None:
    waiting = [Demand((), 10_000, 1e6)]
    assert needs(waiting, Supply("cloud", {}, 2, 5, 1.0)) == {"cloud": 5}
    assert needs([], Supply("cloud", {}, 2, 5, 1.0)) == {"cloud": 2}


def test_workers_that_run_anyway_are_used_first_then_the_cheapest() -> None:
    supplies = Supply("dear", {}, 0, 50, 2.0), Supply("cheap", {}, 0, 10, 1.0), Supply("here", {}, 0, 4, -1.0)
    assert needs([Demand((), 10_000, 600.0)], *supplies) == {"dear": 0, "cheap": 6, "here": 4}
    assert needs([Demand((), 10_000, 1200.0)], *supplies) == {"dear": 6, "cheap": 10, "here": 4}


def test_a_capability_goes_to_the_managers_that_have_it() -> None:
    supplies = Supply("plain", {}, 0, 50, 1.0), Supply("gpu", {"gpu": 1_000_000}, 0, 2, 5.0)
    assert needs([Demand(GPU, 10, 600.0)], *supplies) == {"plain": 0, "gpu": 2}
    assert needs([Demand(GPU, 10, 600.0)], supplies[0]) == {"plain": 0}


def test_tasks_that_few_can_run_choose_first() -> None:
    """Otherwise ordinary tasks would take the workers with a GPU, since they are cheaper."""
    supplies = Supply("plain", {}, 0, 50, 5.0), Supply("gpu", {"gpu": 1_000_000}, 0, 2, 1.0)
    assert needs([Demand((), 100, 120.0), Demand(GPU, 10, 120.0)], *supplies) == {"plain": 2, "gpu": 2}


def test_workers_with_long_tasks_are_no_help_to_those_that_wait() -> None:
    assert needs([Demand((), 8, 28_800.0)], Supply("cloud", {}, 0, 100, 1.0, 8, 8, 8.0)) == {"cloud": 16}


def test_workers_that_are_busy_stay_without_a_queue() -> None:
    assert needs([], Supply("cloud", {}, 0, 100, 1.0, 8, 1, 7.6)) == {"cloud": 8}
    assert needs([], Supply("cloud", {}, 0, 100, 1.0, 8, 1, 4.0)) == {"cloud": 5}
    assert needs([], Supply("cloud", {}, 0, 100, 1.0, 8, 0, 0.05)) == {"cloud": 0}


def test_the_highest_need_of_the_cool_down_time_counts() -> None:
    recent = RecentNeeds(20.0)
    assert [recent.highest(*each) for each in ((5, 0.0), (2, 10.0), (3, 19.0), (1, 20.0), (1, 31.0), (1, 40.0))] == [
        5, 5, 5, 3, 3, 1,
    ]  # fmt: skip


def test_fewer_busy_workers_are_noticed_slowly_and_none_at_once() -> None:
    busy = RecentlyBusy(10.0)
    assert busy.note(8, 0.0) == 0.0
    assert 7.9 < busy.note(8, 100.0) <= 8.0
    assert 6.0 < busy.note(1, 102.0) < 7.0
    assert busy.note(0, 102.5) == 0.0, "the cool-down time follows, and nothing else"
