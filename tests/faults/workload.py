"""A client that runs jobs until it is told to end."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence

from scaler import Client
from scaler.utility.exceptions import (
    DisconnectedError,
    MissingObjects,
    NoWorkerError,
    ObjectStoreError,
    ProcessorDiedError,
    WorkerDiedError,
)
from tests.faults.jobs import Job

DOCUMENTED = (ProcessorDiedError, WorkerDiedError, MissingObjects, NoWorkerError, ObjectStoreError, DisconnectedError)
"""The errors that docs/reliability.md allows when processes of a task, its host or its scheduler keep failing."""

RECONNECT_SHARE = 0.05
"""The probability that a client disconnects after a job and another takes its place."""


class Workload(threading.Thread):
    """``failures`` has what was wrong, ``count`` the jobs by outcome, ``errors`` the text of a documented error of each
    kind, ``doing`` the current job and ``since`` its start."""

    def __init__(self, address: str, seed: int, allowed: tuple[type[BaseException], ...], jobs: Sequence[Job]) -> None:
        super().__init__(name=f"workload {seed}", daemon=True)
        self.failures: list[str] = []
        self.count: Counter[str] = Counter()
        self.errors: dict[str, str] = {}
        self.doing = ""
        self.since = time.monotonic()
        self._address = address
        self._chance = random.Random(seed)
        self._allowed = allowed
        self._jobs = jobs
        self._ended = threading.Event()

    def end(self) -> None:
        """Start no more jobs. The current one goes on."""
        self._ended.set()

    def run(self) -> None:
        client = Client(self._address)
        try:
            while not self._ended.is_set() and not self.failures:
                self._do(client, self._chance.choice(self._jobs))
                if self._chance.random() < RECONNECT_SHARE:
                    client.disconnect()
                    client = Client(self._address)
        except BaseException:
            self.failures.append(traceback.format_exc())
        finally:
            client.disconnect()

    def _do(self, client: Client, job: Job) -> None:
        self.doing, self.since = job.__name__, time.monotonic()
        try:
            expected, received = job(client, self._chance)
        except self._allowed as error:
            outcome = f"{job.__name__}: {type(error).__name__}"
            self.count[outcome] += 1
            self.errors[outcome] = str(error)
        except BaseException:
            self.failures.append(f"{job.__name__}: {traceback.format_exc()}")
        else:
            self._compare(job.__name__, expected, received)
        self.doing = ""

    def _compare(self, name: str, expected: object, received: object) -> None:
        if expected == received:
            self.count[f"{name}: right"] += 1
        else:
            self.failures.append(f"{name}: expected {str(expected)[:500]}, received {str(received)[:500]}")
