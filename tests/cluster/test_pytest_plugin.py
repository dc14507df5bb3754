"""The fixture scaler_client, in a run of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scaler import SchedulerClusterCombo

TESTS = """
from scaler import Client

def test_one(scaler_client):
    assert isinstance(scaler_client, Client)
    assert scaler_client.map(abs, [-1, 2]) == [1, 2]
    assert scaler_client.n_workers <= {workers}

def test_two(scaler_client, scaler_address):
    assert scaler_client.submit(pow, 2, 3).result() == 8
    print("address", scaler_address)
"""


def run(folder: Path, *options: str, workers: int = 2) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(TESTS.format(workers=workers))
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-n", "0", *options, "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def test_tests_share_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nscaler_workers = 1\n")
    finished = run(tmp_path, workers=1)
    assert "2 passed" in finished.stdout, finished.stdout + finished.stderr


def test_a_cluster_that_runs_already(tmp_path: Path, combo: SchedulerClusterCombo) -> None:
    finished = run(tmp_path, "--scaler-address", combo.get_address())
    assert "2 passed" in finished.stdout, finished.stdout + finished.stderr
    assert f"address {combo.get_address()}" in finished.stdout


@pytest.mark.parametrize("count", ["0", "many"])
def test_a_number_of_workers_that_makes_no_sense(tmp_path: Path, count: str) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nscaler_workers = {count}\n")
    finished = run(tmp_path)
    assert f"Cannot use scaler_workers = {count}" in finished.stdout + finished.stderr
