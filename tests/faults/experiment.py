"""One run: a cluster, clients that use it, faults, and the checks at the end."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler import Client, Cluster, Scheduler
from scaler.utility.exceptions import DeserializeObjectError
from tests.faults.functions import square
from tests.faults.injector import Injector
from tests.faults.jobs import JOBS, Job
from tests.faults.processes import KINDS, Processes, processes_of
from tests.faults.workload import DOCUMENTED, Workload

HANG_SECONDS = 120.0
"""A job that still runs so long after the last fault hangs."""

SETTLE_SECONDS = 60.0
"""All processes are back, or gone, so long after the last fault, or the end."""

LACK_OF_RESOURCES = (OSError, MemoryError, DeserializeObjectError)
"""What tasks, and the loading of their arguments, may raise when descriptors or memory run out."""


@dataclass(frozen=True)
class Plan:
    """What one run consists of."""

    seed: int
    faults: Sequence[str] = ("kill", "stop", "cut")
    kinds: Sequence[str] = KINDS
    agents: int = 2
    clients: int = 3
    store_bytes: int = 64_000_000
    pace: float = 1.0
    jobs: str = "tasks"
    """Those of ``jobs``, or the ``libraries``, which use the cluster through other interfaces."""

    keys: Path | None = None
    """With this folder of keys, all connections are encrypted, as those between hosts are."""


def jobs_of(kind: str) -> Sequence[Job]:
    if kind == "tasks":
        return JOBS
    from tests.faults.library_jobs import LIBRARY_JOBS  # the libraries are large

    return LIBRARY_JOBS


class Experiment:
    """``folder`` receives the log of all processes, and what the object store spills."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._plan = plan
        self._log = folder / "log"
        options: dict[str, Any] = {"logging_paths": (str(self._log),)}
        if plan.keys is not None:
            os.environ["SCALER_KEYS"] = str(plan.keys)
            options["address"] = "tcp://0.0.0.0:0"
        self._scheduler = Scheduler(**options)
        self._scheduler.start()
        self._address = self._scheduler.get_address().replace("0.0.0.0", "127.0.0.1")
        options.pop("address", None)
        options |= {"object_store_memory": plan.store_bytes, "spill_directory": str(folder)}
        self._clusters = [Cluster(self._address, 2, **options) for _ in range(plan.agents)]
        for cluster in self._clusters:
            cluster.start()
        allowed = (*DOCUMENTED, *LACK_OF_RESOURCES) if "starve" in plan.faults else DOCUMENTED
        jobs = jobs_of(plan.jobs)
        seeds = [plan.seed * 1000 + index for index in range(plan.clients)]
        self._clients = [Workload(self._address, seed, allowed, jobs) for seed in seeds]
        self._injector = Injector(self._find, plan.seed, plan.faults, plan.kinds, plan.pace)

    def run(self, seconds: float) -> list[str]:
        """Inject faults for ``seconds``, check, and stop everything. Returns what was wrong."""
        try:
            failures = self._break_for(seconds) or self._check_recovery()
        finally:
            self._stop()
        return failures + self._check_log() + self._check_leftovers()

    def summary(self) -> str:
        jobs: Counter[str] = Counter()
        errors: dict[str, str] = {}
        for client in self._clients:
            jobs.update(client.count)
            errors |= client.errors
        texts = [f"{outcome}: {text}" for outcome, text in sorted(errors.items())]
        return "\n".join([f"faults: {_listed(self._injector.count)}", f"jobs: {_listed(jobs)}", *texts])

    def _find(self) -> Processes:
        return processes_of({each.pid for each in (self._scheduler, *self._clusters) if each.pid is not None})

    def _break_for(self, seconds: float) -> list[str]:
        for client in self._clients:
            client.start()
        self._injector.start()
        try:
            _wait_until(self._failures, seconds)
        finally:
            self._injector.end()
        for client in self._clients:
            client.end()
        while not self._failures() and any(client.is_alive() for client in self._clients):
            time.sleep(0.1)
        return self._failures()

    def _failures(self) -> list[str]:
        failures = [failure for client in self._clients for failure in client.failures]
        now = time.monotonic()
        hangs = [
            f"{client.name} has run the job {client.doing} for {now - client.since:.0f} seconds"
            for client in self._clients
            if client.doing and now - max(client.since, self._injector.last_at) > HANG_SECONDS
        ]
        return failures + hangs

    def _check_recovery(self) -> list[str]:
        """The cluster works, and has all its processes."""
        with Client(self._address) as client:
            if client.map(square, range(1000)) != [number * number for number in range(1000)]:
                return ["the results of a map after the last fault are wrong"]
            if not _wait_until(lambda: not _leavings(client), SETTLE_SECONDS):
                return [f"the clients have left, but not their {_leavings(client)}"]
        if _wait_until(self._is_complete, SETTLE_SECONDS):
            return []
        return [f"processes are missing: { {kind: len(found) for kind, found in self._find().items()} }"]

    def _is_complete(self) -> bool:
        found = self._find()
        agents = len(self._clusters)
        return (len(found["scheduler"]), len(found["agent"]), len(found["zygote"])) == (1, agents, agents)

    def _stop(self) -> None:
        for each in (*self._clusters, self._scheduler):
            each.terminate()
        for each in (*self._clusters, self._scheduler):
            with contextlib.suppress(TimeoutError):  # it is among the leftovers then
                each.join(SETTLE_SECONDS)

    def _check_log(self) -> list[str]:
        text = self._log.read_text(errors="replace")
        start = text.find("Traceback")
        if start < 0:
            return []
        return [f"the log has {text.count('Traceback')} tracebacks; the first: {text[max(0, start - 500) :][:3500]}"]

    def _check_leftovers(self) -> list[str]:
        if _wait_until(lambda: not any(self._find().values()), SETTLE_SECONDS):
            return []
        return [f"left behind: {kind} {process.pid}" for kind, found in self._find().items() for process in found]


def _leavings(client: Client) -> dict[str, object]:
    """What is still there although all clients but this one have left."""
    info = client.cluster_info()
    found = {
        "clients": [
            each.program for each in info.clients if each.session[:4] != client.identity[:4]
        ],  # the rest is secret
        "tasks": info.unfinished.waiting + info.unfinished.queued + info.unfinished.running,
        "objects": sum(store.objects for store in info.stores),
    }
    return {name: value for name, value in found.items() if value}


def _wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Whether ``condition`` became true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _listed(count: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(count.items())) or "none"
