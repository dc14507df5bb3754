"""The values that clusters give to their worker managers."""

import pytest

from scaler.cluster.managed import with_own_scheduler

OPEN = {"death_timeout_seconds": None}


def test_workers_wait_for_a_scheduler_of_their_own_only_as_long_as_it_would_wait_for_them() -> None:
    assert with_own_scheduler(OPEN) == {"death_timeout_seconds": 60.0}


def test_the_time_that_the_user_has_set_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_own_scheduler({"death_timeout_seconds": 5}) == {"death_timeout_seconds": 5}
    monkeypatch.setenv("SCALER_MANAGER_DEATH_TIMEOUT_SECONDS", "10min")
    assert with_own_scheduler(OPEN) == OPEN


def test_clusters_whose_workers_end_with_them_have_no_such_time() -> None:
    assert with_own_scheduler({"name": None}) == {"name": None}
