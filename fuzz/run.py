"""The process that fuzzes one target: ``python -m fuzz.run TARGET TALLY [libFuzzer's arguments]``.

It needs the environment of the sanitizer build, in which ``fuzz.drive`` starts it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import atheris

from fuzz.instrumentation import instrumented_imports
from fuzz.tally import TALLY
from fuzz.target import SLOWEST_SECONDS, FuzzTarget

PACKAGES = ["scaler", "scaler_protocol", "scaler_scheduler", "scaler_worker"]
"""Their branches guide the fuzzer: compiled ones by the build, those in Python since their bytecode is changed."""


class TooSlow(Exception):
    """An input took longer than any may."""


def bounded(one_input: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """``one_input``, counted and with a bound of time."""
    clock = time.process_time

    def run(data: bytes) -> None:
        started = clock()
        one_input(data)
        TALLY.count_input()
        took = clock() - started
        if took > SLOWEST_SECONDS:
            raise TooSlow(f"{len(data)} bytes took {took:.1f} s.")

    return run


def main(name: str, tally_path: str, *arguments: str) -> None:
    TALLY.keep_in(Path(tally_path))
    target = FuzzTarget(name)
    with instrumented_imports(PACKAGES):
        loaded = target.load()
    itself = f"{sys.executable} -m fuzz.run {name} {tally_path}"  # libFuzzer starts it again to merge, through a shell
    command = [itself, f"-max_len={loaded.longest_input_bytes}", *arguments]
    atheris.Setup(command, bounded(loaded.one_input), enable_python_coverage=True)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
