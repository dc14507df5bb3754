"""A thread that injects faults at random moments into random processes."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import psutil

from scaler_protocol.command.supervised import EARLY_SECONDS
from tests.faults.faults import FAULTS
from tests.faults.processes import Processes

PAUSE_SECONDS = (0.2, 3.0)
LONG_PAUSE_SHARE = 0.1
LONG_PAUSE_FACTOR = 5
"""One pause in ten is longer, so that the cluster settles before the next fault."""


def _may_be_killed(process: psutil.Process, kind: str) -> bool:
    """A command that dies early several times in a row is given up."""
    return kind not in ("scheduler", "agent") or time.time() - process.create_time() > EARLY_SECONDS


class Injector:
    """``count`` has the number of faults that happened, by fault and kind of process; ``last_at`` is the time
    (``time.monotonic()``) of the last one."""

    def __init__(
        self, find: Callable[[], Processes], seed: int, faults: Sequence[str], kinds: Sequence[str], pace: float = 1.0
    ) -> None:
        self.count: Counter[str] = Counter()
        self.last_at = time.monotonic()
        self._find = find
        self._chance = random.Random(seed)
        self._faults = faults
        self._kinds = kinds
        self._pace = pace
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Wait for the current fault. No process is left stopped or without descriptors."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._pause_seconds()):
            fault, kind = self._chance.choice(self._faults), self._chance.choice(self._kinds)
            candidates = [each for each in self._find()[kind] if fault != "kill" or _may_be_killed(each, kind)]
            if candidates and self._inject(fault, self._chance.choice(candidates)):
                self.count[f"{fault} {kind}"] += 1
                self.last_at = time.monotonic()

    def _inject(self, fault: str, process: psutil.Process) -> bool:
        try:
            return FAULTS[fault](process, self._chance)
        except (psutil.Error, OSError):
            return False  # it has ended meanwhile

    def _pause_seconds(self) -> float:
        factor = LONG_PAUSE_FACTOR if self._chance.random() < LONG_PAUSE_SHARE else 1
        return self._chance.uniform(*PAUSE_SECONDS) * factor / self._pace
