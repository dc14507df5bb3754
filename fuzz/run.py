"""The process that fuzzes one target: ``python -m fuzz.run TARGET TALLY MODE [libFuzzer's arguments]``.

It needs the environment of the sanitizer build, in which ``fuzz.drive`` starts it.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import atheris

from fuzz.instrumentation import instrumented_imports
from fuzz.mode import MUTANTS, Mode
from fuzz.mutants import Mutants
from fuzz.seeds import corpus_in, half_of_the_time, read_for
from fuzz.tally import TALLY
from fuzz.target import FuzzTarget

PACKAGES = ["scaler", "scaler_protocol", "scaler_scheduler", "scaler_worker"]
"""Their branches guide the fuzzer: compiled ones by the build, those in Python since their bytecode is changed."""


class TooSlow(Exception):
    """An input took longer than any may."""


def bounded(one_input: Callable[[bytes], None], slowest_seconds: float) -> Callable[[bytes], None]:
    """``one_input``, counted and with a bound of time."""
    clock = time.process_time

    def run(data: bytes) -> None:
        started = clock()
        TALLY.begin_input(data)
        one_input(data)
        took = clock() - started
        if took > slowest_seconds:
            raise TooSlow(f"{len(data)} bytes took {took:.1f} s.")
        TALLY.end_input()

    return run


def multiplied(run: Callable[[bytes], None], mutants: Mutants) -> Callable[[bytes], None]:
    """``run`` with each input of libFuzzer's, and with mutants of it."""

    def run_all(data: bytes) -> None:
        run(data)
        for mutant in mutants.of(data, MUTANTS):
            run(mutant)

    return run_all


def main(name: str, tally_path: str, mode: str, *arguments: str) -> None:
    TALLY.keep_in(Path(tally_path))
    target, is_guided = FuzzTarget(name), mode == Mode.GUIDED
    with instrumented_imports(PACKAGES) if is_guided else contextlib.nullcontext():
        loaded = target.load()
    run = bounded(loaded.one_input, loaded.slowest_seconds)
    longest_bytes = loaded.longest_input_bytes
    gc.freeze()  # what has been made so far stays: collections need not visit it
    # libFuzzer starts it again to merge, through a shell.
    command = [f"{sys.executable} -m fuzz.run {name} {tally_path} {mode}", f"-max_len={longest_bytes}", *arguments]
    corpus = corpus_in(arguments)
    chosen = run if is_guided else multiplied(run, Mutants(longest_bytes, loaded.is_sequence, corpus))
    reading_seconds = half_of_the_time(arguments)
    if reading_seconds is not None:
        chosen = read_for(reading_seconds, len(corpus), chosen)
    atheris.Setup(command, chosen, enable_python_coverage=is_guided)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
