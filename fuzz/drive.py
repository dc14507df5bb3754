"""Runs fuzz targets, each in a process of its own, several at a time, and says what they found."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fuzz import sanitizers, scratch, tally
from fuzz.mode import MUTANTS, Mode
from fuzz.seeds import TIME_BOUND
from fuzz.target import FuzzTarget

WORK = sanitizers.REPOSITORY / ".fuzz" / "work"
TOTALS = sanitizers.REPOSITORY / ".fuzz" / "totals.json"
MEMORY_LIMIT_MB = 2048
ALLOCATION_LIMIT_MB = 64
"""No input is larger than a few kilobytes, so nothing that it says may justify more at once."""

HANG_SECONDS = 60
REPORT_LINES = 12


def inputs_at_once(mode: Mode) -> int:
    """Return how many inputs are tried where libFuzzer sees one."""
    return 1 if mode == Mode.GUIDED else 1 + MUTANTS


@dataclass(frozen=True)
class Bound:
    """The condition that ends a run."""

    inputs: int = 0
    seconds: int = 0

    def arguments(self, mode: Mode) -> list[str]:
        """Arguments of libFuzzer. If there is no time for the whole corpus, it reads a random part, not the smallest
        inputs."""
        if not self.inputs:
            return [f"{TIME_BOUND}{self.seconds}", "-prefer_small=0"]
        return [f"-runs={math.ceil(self.inputs / inputs_at_once(mode))}"]


@dataclass(frozen=True)
class DriveOutcome:
    target: str
    inputs: int
    messages: int
    seconds: float
    crash: Path | None
    report: str

    def __str__(self) -> str:
        messages = f", {self.messages:,} messages" if self.messages else ""
        line = f"{self.target:24} {self.inputs:>12,} inputs{messages} in {self.seconds:,.0f} s"
        if not self.report:
            return line
        replay = f"\n  Reproduce with: scripts/fuzz {self.target} --reproduce {self.crash}" if self.crash else ""
        return f"{line}\nFAILED {self.target}\n{self.report}{replay}"


def fuzz(names: list[str], bound: Bound, jobs: int, mode: Mode) -> bool:
    """Return whether nothing was found. Results are printed as they come."""
    found = False
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda name: fuzz_one(FuzzTarget(name), bound, mode), names):
            print(outcome, flush=True)
            add_to_totals(outcome)
            found = found or bool(outcome.report)
    return not found


def fuzz_one(target: FuzzTarget, bound: Bound, mode: Mode) -> DriveOutcome:
    folder = WORK / target.name
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    (folder / "tally").unlink(missing_ok=True)
    started = time.monotonic()
    corpora = [str(each) for each in (corpus, target.corpus) if each.is_dir()]
    code, log = run(target, folder, [*corpora, *bound.arguments(mode), *limits(target, mode)], mode)
    inputs, messages = tally.read(folder / "tally")
    crash = save_crash(folder) if code else None
    report = essence(log) if code else ""
    return DriveOutcome(target.name, inputs, messages, time.monotonic() - started, crash, report)


def save_crash(folder: Path) -> Path | None:
    """The input that was being tried, if the target could be loaded."""
    data = tally.read_input(folder / "tally")
    if data is None:
        return None
    path = folder / "crashes" / f"crash-{hashlib.sha1(data).hexdigest()}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def limits(target: FuzzTarget, mode: Mode = Mode.GUIDED) -> Iterator[str]:
    yield f"-rss_limit_mb={MEMORY_LIMIT_MB}"
    yield f"-malloc_limit_mb={ALLOCATION_LIMIT_MB}"
    yield "-detect_leaks=0"  # libFuzzer would try the first thousand inputs twice, as Python keeps some memory of each
    yield f"-timeout={HANG_SECONDS * inputs_at_once(mode)}"
    if target.dictionary.exists():
        yield f"-dict={target.dictionary}"


def run(target: FuzzTarget, folder: Path, arguments: list[str], mode: Mode = Mode.GUIDED) -> tuple[int, str]:
    """One process of the fuzzer; its exit code and what it said. libFuzzer's input is an artifact in ``folder``: in
    volume mode one of its mutants was tried."""
    artifact = f"-artifact_prefix={folder}/artifact-"
    command = [str(sanitizers.PYTHON), "-m", "fuzz.run", target.name, str(folder / "tally"), mode, artifact, *arguments]
    log = folder / "log"
    with open(log, "wb") as output, scratch.environment() as variables:
        environment = {**sanitizers.environment(mode), **variables}
        code = subprocess.run(
            command, cwd=sanitizers.REPOSITORY, env=environment, stdout=output, stderr=output, check=False
        ).returncode
    return code, log.read_text(encoding="utf-8", errors="replace")


def reproduce(target: FuzzTarget, paths: list[Path]) -> int:
    """Run these inputs once, and show all that the sanitizers say."""
    folder = WORK / target.name
    folder.mkdir(parents=True, exist_ok=True)
    code, log = run(target, folder, [*map(str, paths), *limits(target)])
    print("\n".join(line for line in log.splitlines() if not line.startswith("INFO:")))
    return code


def essence(log: str) -> str:
    """Return the first message of a sanitizer or of Python, without the frames below the target."""
    lines = log.splitlines()
    marks = "ERROR:", "Uncaught Python", "runtime error"
    found = (at for at, line in enumerate(lines) if any(mark in line for mark in marks))
    start = next(found, max(0, len(lines) - REPORT_LINES))
    told = lines[start : start + 2 * REPORT_LINES]
    end = next((at for at, line in enumerate(told) if at and "ERROR: libFuzzer" in line), len(told))
    return "\n".join(f"  {line[:200]}" for line in told[:end] if "pybind11" not in line)


def add_to_totals(outcome: DriveOutcome) -> None:
    totals = read_totals()
    inputs, messages = totals.get(outcome.target, (0, 0))
    totals[outcome.target] = (inputs + outcome.inputs, messages + outcome.messages)
    TOTALS.write_text(json.dumps(totals, indent=1), encoding="utf-8")


def read_totals() -> dict[str, tuple[int, int]]:
    """Return the totals of all runs in this folder: inputs and messages by target."""
    if not TOTALS.exists():
        return {}
    return {name: (counts[0], counts[1]) for name, counts in json.loads(TOTALS.read_text(encoding="utf-8")).items()}


def write_seeds(names: list[str]) -> None:
    """Into each target's working corpus. In the environment of the build: targets import what they fuzz."""
    code = "import sys; from fuzz.drive import write_seeds_here; write_seeds_here(sys.argv[1:])"
    command = [str(sanitizers.PYTHON), "-c", code, *names]
    subprocess.run(command, cwd=sanitizers.REPOSITORY, env=sanitizers.environment(), check=True)


def write_seeds_here(names: list[str]) -> None:
    for name in names:
        folder = WORK / name / "corpus"
        folder.mkdir(parents=True, exist_ok=True)
        for seed in FuzzTarget(name).load().seeds():
            (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


if __name__ == "__main__":
    sys.exit("Run scripts/fuzz.")
