"""Runs inputs without a fuzzer, in whatever build is installed: ``python -m fuzz.replay TARGET [FILE ...]``."""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz.target import FuzzTarget


def replay(target: FuzzTarget, paths: list[Path]) -> None:
    """Raises what the target raises, with a note that names the input."""
    one_input = target.load().one_input
    for path in paths:
        try:
            one_input(path.read_bytes())
        except Exception as error:
            error.add_note(f"Reproduce with: python -m fuzz.replay {target.name} {path}")
            raise


if __name__ == "__main__":
    chosen = FuzzTarget(sys.argv[1])
    replay(chosen, [Path(name) for name in sys.argv[2:]] or chosen.inputs())
