"""The simulated fleet joins a real scheduler and ends its tasks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.functions import noop
from scaler import Client
from tests.support.commands import start_scheduler
from tests.support.ports import free_address

ROOT = Path(__file__).resolve().parents[3]
AGENTS = 3


def test_agents_with_simulated_workers_join_and_end_tasks() -> None:
    address = free_address()
    with start_scheduler(address):
        command = [sys.executable, "-m", "benchmarks.fleet_agents", address, str(AGENTS), "2"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as agents:
            try:
                assert agents.stdout is not None and agents.stdout.readline().startswith("joined")
                with Client(address) as client:
                    assert client.map(noop, range(1000)) == [None] * 1000
                    assert len(client.cluster_info().workers) == 2 * AGENTS
            finally:
                agents.kill()
