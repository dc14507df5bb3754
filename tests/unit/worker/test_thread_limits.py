"""The threads of numerical libraries in worker processes."""

from __future__ import annotations

import pytest

from scaler_worker.thread_limits import VARIABLES, thread_limits


@pytest.mark.parametrize(("workers", "processors", "share"), [(1, 8, "8"), (3, 8, "2"), (8, 8, "1"), (20, 8, "1")])
def test_each_worker_has_its_share(workers: int, processors: int, share: str) -> None:
    assert thread_limits(workers, processors, {}) == dict.fromkeys(VARIABLES, share)


def test_variables_of_the_environment_stay() -> None:
    assert thread_limits(4, 4, {"OMP_NUM_THREADS": "2"}) == {}
    limits = thread_limits(4, 4, {"MKL_NUM_THREADS": "2"})
    assert "MKL_NUM_THREADS" not in limits and limits["OPENBLAS_NUM_THREADS"] == "1"
