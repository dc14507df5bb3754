"""``python -m tests.faults --seconds 600 --seed 7``: one run, with exit code 1 when anything was wrong."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.faults.experiment import Experiment, Plan
from tests.faults.faults import FAULTS
from tests.faults.processes import KINDS
from tests.support import leftovers


def main() -> int:
    arguments = _parse()
    home = tempfile.mkdtemp(prefix="scaler-home-", dir="/tmp")
    os.environ["SCALER_HOME"] = home
    leftovers.adopt_orphans()
    before = leftovers.present()
    try:
        failures = _run(Path(home), arguments)
    finally:
        left = leftovers.left_since(before)
        leftovers.sweep(left)
        shutil.rmtree(home)
    for failure in [*failures, *(f"left behind: {words}" for words in left.values())]:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures or left else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Break a cluster at random.")
    parser.add_argument("--seconds", type=float, default=60.0, help="inject faults for this long")
    parser.add_argument("--seed", type=int, default=0, help="choose other faults and jobs")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=["kill", "stop", "cut"], help="inject these")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="break these processes")
    parser.add_argument("--agents", type=int, default=2, help="start this number of agents with two workers each")
    parser.add_argument("--clients", type=int, default=3, help="run jobs in this number of clients")
    parser.add_argument("--jobs", choices=("tasks", "libraries"), default="tasks", help="run jobs of this kind")
    parser.add_argument("--store-bytes", type=int, default=64_000_000, help="limit the memory of the object store")
    parser.add_argument("--pace", type=float, default=1.0, help="inject faults this many times as often")
    parser.add_argument("--keys", type=Path, help="encrypt all connections with this folder of scaler_keygen's")
    return parser.parse_args()


def _run(folder: Path, arguments: argparse.Namespace) -> list[str]:
    values = {name: value for name, value in vars(arguments).items() if name != "seconds"}
    experiment = Experiment(folder, Plan(**values))
    failures = experiment.run(arguments.seconds)
    print(experiment.summary())
    return failures


if __name__ == "__main__":
    sys.exit(main())
