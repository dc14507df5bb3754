"""An agent tells its scheduler what its worker processes run with."""

from __future__ import annotations

from scaler_protocol.messages import HostSoftware
from tests.unit.worker.playbook import Stage

SOFTWARE = HostSoftware("vm-1", "3.12.1", "x86_64-v3", ("numpy 2.1.0",))


def read(stage: Stage) -> list[HostSoftware]:
    """The software is known now. Returns what the scheduler has heard since the start."""
    stage.core.on_software_read(SOFTWARE, stage.now)
    stage.turn()
    return stage.bodies(HostSoftware)


def test_a_connected_scheduler_hears_at_once() -> None:
    assert read(Stage(1)) == [SOFTWARE]


def test_a_scheduler_hears_when_it_welcomes_the_agent() -> None:
    stage = Stage(1, welcome=False)
    assert read(stage) == []
    stage.connect()
    assert stage.bodies(HostSoftware) == [SOFTWARE]


def test_a_restarted_scheduler_hears_again() -> None:
    stage = Stage(1)
    read(stage)
    stage.core.on_peer_lost(b"", stage.now)
    stage.connect(epoch=2)
    assert stage.bodies(HostSoftware) == [SOFTWARE] * 2
