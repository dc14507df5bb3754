"""Short runs of the fault script. ``python -m tests.faults`` makes long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.experiment import Experiment, Plan

FAULT_SECONDS = 8.0

PLANS = {
    "all faults": Plan(seed=1, pace=2.0),
    "kills": Plan(seed=2, faults=("kill",), pace=2.0),
    "lack of descriptors": Plan(seed=3, faults=("starve",)),
    "a store that spills": Plan(seed=4, kinds=("worker", "store", "agent"), store_bytes=8_000_000),
}


@pytest.mark.timeout(280)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_random_faults_cost_no_result_and_leave_nothing_behind(plan: Plan, tmp_path: Path) -> None:
    experiment = Experiment(tmp_path, plan)
    failures = experiment.run(FAULT_SECONDS)
    assert not failures, experiment.summary() + "\n" + "\n".join(failures)
