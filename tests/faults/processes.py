"""The processes of a cluster under test, by kind."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import psutil

KINDS = ("scheduler", "publisher", "agent", "zygote", "worker", "store")

Processes = dict[str, list[psutil.Process]]


def processes_of(commands: Collection[int]) -> Processes:
    """The schedulers and agents with the process ids ``commands``, their children, and the object stores that use the
    SCALER_HOME of this process. Object stores are not children of the agents that start them."""
    found: Processes = {kind: [] for kind in KINDS}
    for process in psutil.process_iter():
        try:
            kind = _kind_of(process, commands)
        except (psutil.Error, OSError):
            continue  # it has just ended
        if kind is not None:
            found[kind].append(process)
    return found


def _kind_of(process: psutil.Process, commands: Collection[int]) -> str | None:
    if process.status() == psutil.STATUS_ZOMBIE:
        return None
    line = " ".join(process.cmdline())
    if process.pid in commands:
        return "scheduler" if "scaler_scheduler" in line else "agent"
    if "scaler_protocol.objects.store" in line:
        return "store" if process.environ().get("SCALER_HOME") == os.environ["SCALER_HOME"] else None
    if process.ppid() not in commands:
        return None
    if "publisher_process" in line:
        return "publisher"
    if "worker_process.zygote" in line or line.startswith("scaler worker"):
        return "worker" if _maps_a_board(process) else "zygote"
    return None


def _maps_a_board(process: psutil.Process) -> bool:
    """A worker process is forked from the zygote and has its command line at first, but shares a board with its
    agent."""
    return "scaler-board" in Path(f"/proc/{process.pid}/maps").read_text()
