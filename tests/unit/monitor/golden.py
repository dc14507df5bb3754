"""Records what a real cluster tells its monitors: ``python -m tests.unit.monitor.golden`` writes an event log to
``recorded/``, which ``test_golden`` plays with the model of today. A log of every release stays."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from scaler import Client
from scaler_protocol.monitor.messages import MONITOR_MAJOR, MONITOR_MINOR
from scaler_protocol.monitor.replay import Replay
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

RECORDED = Path(__file__).parent / "recorded"
SQUARES, FAILURES = 300, 4


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder))
        (log,) = Path(folder).iterdir()
        target = RECORDED / f"cluster-{MONITOR_MAJOR}.{MONITOR_MINOR}.events"
        target.write_bytes(log.read_bytes())
    print(f"{target}: {target.stat().st_size:,} bytes")


def record(folder: Path) -> None:
    """A map, failures, a death, a cancel and a graph; a second of rest, for the last snapshot."""
    address = free_address()
    with ExitStack() as stack:
        scheduler = stack.enter_context(start_scheduler(address, "--event-log", folder))
        scheduler.remember_family()
        stack.enter_context(start_cluster(address, "-n", 2, "-wn", "first,second", "-hi", 0.5))
        wait_until(lambda: _is_recording(folder))
        client = stack.enter_context(Client(address))
        client.map(functions.square, range(SQUARES))
        for number in range(FAILURES):
            client.submit(divmod, number, 0).exception(20)
        client.submit(functions.exit_process, os.devnull, 7).exception(30)
        sleeper = client.submit(functions.sleep_and_return, 30.0)
        time.sleep(0.5)  # it runs
        sleeper.cancel()
        graph = {"one": 1, "left": (functions.square, "one"), "right": (functions.square, "one")}
        client.get({**graph, "sum": (functions.add, "left", "right")}, ["sum"])
        time.sleep(2.5)


def _is_recording(folder: Path) -> bool:
    try:
        Replay(folder).close()
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    main()
