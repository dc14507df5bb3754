"""A selection of Dask's own tests, with Scaler as the scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaler import SchedulerClusterCombo
from tests.support.commands import child_environment

for needed in ("numpy", "pandas", "dask.array.tests", "dask.bag.tests", "dask.tests"):
    pytest.importorskip(needed)

SELECTIONS = {
    "core": (["dask.tests.test_base", "dask.tests.test_graph_manipulation"], "not emscripten"),
    "delayed": (["dask.tests.test_delayed"], ""),
    "bag": (["dask.bag.tests.test_bag"], "not groupby"),
    "frame": ([f"dask.dataframe.dask_expr.tests.test_{name}" for name in ("core", "datasets", "fusion")], ""),
    "text": (["dask.bag.tests.test_random", "dask.bag.tests.test_text"], ""),
    "persisted": (
        ["dask.array.tests.test_linalg", "dask.dataframe.io.tests.test_parquet"],
        "svd_compressed_compute or timeseries",
    ),
    "array": (["dask.array.tests.test_array_core"], "store or from_array or compute or persist or memmap"),
}
"""Modules, and an expression that leaves out what takes long or starts programs that use Dask's own schedulers."""


@pytest.mark.parametrize("name", SELECTIONS)
def test_dasks_own_tests(combo: SchedulerClusterCombo, tmp_path: Path, name: str) -> None:
    modules, expression = SELECTIONS[name]
    plugins = ["-p", "tests.support.dask_scheduler", "-p", "no:cacheprovider"]
    options = ["-q", "-c", os.devnull, f"--rootdir={tmp_path}", *plugins, "-k", expression]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--pyargs", *modules],
        cwd=tmp_path,
        env=child_environment(SCALER_ADDRESS_OF_TESTS=combo.get_address()),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert finished.returncode == 0, finished.stdout[-5000:]
    assert " passed" in finished.stdout
