"""Reading the corpus of a target within a part of the time that a run has."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

TIME_BOUND = "-max_total_time="
"""libFuzzer's argument. libFuzzer looks at its clock only when it has read the whole corpus, which takes longer than a
short run where an input is a simulation of a whole cluster."""


def corpus_in(arguments: tuple[str, ...]) -> list[bytes]:
    """Return the inputs in the folders among libFuzzer's arguments. A file there is an input to reproduce."""
    folders = [path for path in map(Path, arguments) if path.is_dir()]
    return [path.read_bytes() for folder in folders for path in folder.iterdir()]


def half_of_the_time(arguments: tuple[str, ...]) -> float | None:
    """Return how many seconds reading the corpus may take. None: the run is not bounded by time."""
    bounds = [int(each.removeprefix(TIME_BOUND)) for each in arguments if each.startswith(TIME_BOUND)]
    return bounds[0] / 2 if bounds else None


def read_for(
    seconds: float, files: int, run: Callable[[bytes], None], clock: Callable[[], float] = time.monotonic
) -> Callable[[bytes], None]:
    """``run``, without the files of the corpus whose turn comes later than ``seconds`` from now. libFuzzer tries the
    empty input first, and then the files."""
    left = 1 + files
    end = clock() + seconds

    def run_in_time(data: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0 or clock() < end:
            run(data)

    return run_in_time
