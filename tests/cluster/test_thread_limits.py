"""Numerical libraries in worker processes start as many threads as the worker has processors."""

from __future__ import annotations

import os

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler_worker.system import processor_count
from scaler_worker.thread_limits import VARIABLES

NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def variables() -> list[str | None]:
    return [os.environ.get(name) for name in NAMES]


@pytest.mark.parametrize("chosen", [None, "7"])
def test_tasks_find_the_limit(monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if chosen is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    share = str(max(1, processor_count() // 2))
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
        assert client.submit(variables).result() == ([share, share] if chosen is None else [chosen, None])
