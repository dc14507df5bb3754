"""Chooses the corpus that the repository keeps: of all inputs that were found, few that reach as much as possible."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from fuzz.drive import WORK, limits, run
from fuzz.target import FuzzTarget

BUDGET_BYTES = 8 * 1024
MOST_INPUTS = 40
"""Per target, in addition to its regression inputs."""


def minimize(target: FuzzTarget) -> str:
    """Rewrite the target's corpus in the repository. Inputs that found something stay: their names are not digests."""
    found = [WORK / target.name / "corpus", target.corpus]
    reached = features(target, [folder for folder in found if folder.is_dir()])
    chosen = choose(reached)
    target.corpus.mkdir(parents=True, exist_ok=True)
    contents = [path.read_bytes() for path in chosen]
    for path in target.inputs():
        if not is_regression(path):
            path.unlink()
    for data in contents:
        (target.corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)
    size = sum(map(len, contents))
    return f"{target.name:24} {len(contents):>4} of {len(reached):,} inputs, {size:,} bytes"


def is_regression(path: Path) -> bool:
    return len(path.name) != 40


def features(target: FuzzTarget, folders: list[Path]) -> dict[Path, set[int]]:
    """Return the features that each input reaches, as libFuzzer notes it while it merges."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "merged").mkdir()
        control = scratch / "control"
        arguments = ["-merge=1", f"-merge_control_file={control}", str(scratch / "merged"), *map(str, folders)]
        code, log = run(target, scratch, [*arguments, *limits(target)])
        if code:
            raise RuntimeError(log[-2000:])
        return read_control(control.read_text(encoding="utf-8").splitlines())


def read_control(lines: list[str]) -> dict[Path, set[int]]:
    """The number of files, the number of those of the first folder, the names, then what was reached."""
    count = int(lines[0])
    paths = [Path(line) for line in lines[2 : 2 + count]]
    reached: dict[Path, set[int]] = {}
    for line in lines[2 + count :]:
        word, *numbers = line.split()
        if word == "FT":
            reached[paths[int(numbers[0])]] = {int(number) for number in numbers[1:]}
    return reached


def choose(reached: dict[Path, set[int]]) -> list[Path]:
    """The next one is always that which adds the most for its size."""
    chosen: list[Path] = []
    covered: set[int] = set()
    sizes = {path: path.stat().st_size for path in reached}
    left = BUDGET_BYTES
    while len(chosen) < MOST_INPUTS:
        worth = {path: len(new - covered) for path, new in reached.items() if sizes[path] <= left}
        best = max(worth, key=lambda path: (worth[path] / (64 + sizes[path]), path.name), default=None)
        if best is None or not worth[best]:
            break
        chosen.append(best)
        covered |= reached.pop(best)
        left -= sizes[best]
    return chosen
