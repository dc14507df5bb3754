"""What a small hostile event log can cost whoever plays it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.hostile_logs import ATTACKS, write_log

LIMIT_MIB = 200
"""Of memory for everything that a player and its model hold, whatever is in a log."""

PLAY = """
import resource, sys
from scaler_protocol.monitor.graphs import nodes_of
from scaler_protocol.monitor.player import Player
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.tables import TABLES

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

before = peak()
replay = Replay(sys.argv[1])
player = Player(replay)
for moment in (replay.start, replay.end):
    player.seek(moment)
    while player.read():
        pass
model = player.model
for name in TABLES:
    model.rows(name, "x", None, None, 0, 100)
for column in ("session", "function", "worker", "duration"):
    model.rows("tasks", "", column, True, 0, 100)
for graph in model.activity.graphs.all():
    nodes_of(graph, model.log)
model.bars(replay.start - 1, replay.end, 1000, [row.worker_index for row in model.stream_rows()])
print(peak() - before)
"""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_it_costs_a_bound_and_no_more(attack: Callable[[], Any], tmp_path: Path) -> None:
    write_log(tmp_path, *attack())
    played = subprocess.run([sys.executable, "-c", PLAY, str(tmp_path)], capture_output=True, text=True, timeout=100)
    assert played.returncode == 0, played.stderr[-2000:]
    assert int(played.stdout) < LIMIT_MIB
