"""The durations of the tasks of a function, and their number (contract of function_loads.pyx).

``estimate_us`` is what a task is given out with: the recent mean, or 10 ms while nothing is known. A task that was
given out with one estimate is given back with the same, whatever has been measured since.
"""

from collections.abc import Iterable

from scaler_scheduler.core.duration_histogram import DurationHistogram
from scaler_scheduler.core.function_keys import FunctionKey

class FunctionLoad:
    """The durations of the tasks of one function, and their number. ``total_us`` and ``cpu_us``: of all executions
    together. ``durations``: of each. ``waits``: how long each waited for a worker. The others are parts of all
    executions together: see ``parts``."""

    digest: bytes
    name: str
    module: str
    key: FunctionKey
    duration_us: float
    samples: int
    total_us: float
    cpu_us: float
    durations: DurationHistogram
    waits: DurationHistogram
    waiting_us: float
    dependencies_us: float
    fetching_us: float
    loading_us: float
    storing_us: float
    unfinished: int
    finished: int
    estimate_us: int
    def __init__(self, digest: bytes, name: str, module: str = "") -> None: ...
    def is_called(self, name: str) -> bool:
        """Return whether this is its name, or its name after that of its module and a dot."""

    def outcome(self, status: int) -> int: ...
    def figures(self) -> tuple[int, int, int, int, float]:
        """Return how many tasks have not ended, have ended, succeeded and were cancelled, and ``total_us``."""

    def parts(self) -> tuple[float, float, float, float, float]:
        """Microseconds of all executions together: waiting for dependencies, waiting for a worker, fetching arguments,
        loading them, storing results. The last three are parts of ``total_us``."""

    def observe(self, total_us: float, number: int, cpu_us: float = 0.0) -> None: ...

def together(loads: Iterable[FunctionLoad]) -> FunctionLoad:
    """Return a load without a name that has the sums of these, other than ``duration_us`` and ``samples``."""
