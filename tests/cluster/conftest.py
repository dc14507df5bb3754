"""Clusters of real processes, reached through the public names only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler_protocol.key_files import generate
from scaler_protocol.transport.curve_authentication import new_key_pair

TEST_TIMEOUT_SECONDS = 200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here has a bound in time, and a test beyond it fails alone: a signal interrupts it."""
    folder = Path(__file__).parent
    own = {path for path in {item.path for item in items} if folder in path.parents}
    for item in items:
        if item.path in own:
            marker = item.get_closest_marker("timeout")
            seconds = marker.args[0] if marker else TEST_TIMEOUT_SECONDS
            item.add_marker(pytest.mark.timeout(seconds, method="signal"), append=False)


@pytest.fixture(scope="module")
def combo() -> Iterator[SchedulerClusterCombo]:
    """A scheduler and two workers, shared by the tests of a file."""
    with SchedulerClusterCombo(2) as running:
        yield running


@pytest.fixture
def client(combo: SchedulerClusterCombo) -> Iterator[Client]:
    with Client(combo.get_address()) as connected:
        yield connected


@pytest.fixture(scope="module")
def single_combo() -> Iterator[SchedulerClusterCombo]:
    """One worker: what runs, runs alone and in the order of the queue."""
    with SchedulerClusterCombo(1) as running:
        yield running


@pytest.fixture
def single_client(single_combo: SchedulerClusterCombo) -> Iterator[Client]:
    with Client(single_combo.get_address()) as connected:
        yield connected


class Gate:
    """Holds tasks that run ``functions.wait_at_gate(*gate.paths)`` until it is opened."""

    def __init__(self, folder: Path) -> None:
        self.started = folder / "started"
        self.gate = folder / "gate"

    @property
    def paths(self) -> tuple[str, str]:
        return str(self.started), str(self.gate)

    @property
    def waiting_pids(self) -> list[int]:
        return [int(line) for line in self.started.read_text().splitlines()] if self.started.exists() else []

    def open(self) -> None:
        self.gate.touch()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    folder = tmp_path / "gate"
    folder.mkdir()
    made = Gate(folder)
    yield made
    made.open()


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of keys for this process and the commands that it starts."""
    folder = tmp_path / "keys"
    generate(folder, new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(folder))
    return folder
