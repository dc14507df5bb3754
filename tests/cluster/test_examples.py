"""Every example runs, and says what it promises."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY, child_environment

EXAMPLES = REPOSITORY / "examples"

SAYS = {
    "simple": r"the square root of 16 is 4\.0",
    "many_calls": r"sum of 100,000 roots: 21,081,692\.7",
    "graph": r"{'text': 'sum 13, product 42', 'product': 42}\n(.*\n)*as futures: sum 13, product 42 and 13",
    "nested_graph": r"{'small': 285, 'large': 2470, 'difference': 2185}",
    "nested": r"fibonacci\(8\) = 21",
    "send_object": r"multiples of 9: 22,223",
    "arrays": r"40 MB there and back in .*\nspread 1\.00, smoothed 0\.\d+\nfour more: (0\.\d+, ){3}0\.\d+",
    "data_frames": r"1,000,000 sales in 50 shops and 12 months\nmean amount 30\.\d",
    "model_broadcast": r"200 batches by 2 workers with a model of 200 MB in .* s",
    "disconnect": r"after it left: client is already stopped\.\nanother client: 3",
    "futures": r"finished: 0\.1 s\n(.*\n)*.*ZeroDivisionError: division by zero",
    "cancelling": r"cancelled: True, True\n(.*\n)*the worker is free again: 7",
    "async_client": r"6 pages: \[1, 4, .*\nfirst squares: 0 1 4 9\nstopped after 0\.2 s\nthe worker is free again: 7",
    "executor": r"\[0, 1, 4, 9, 16\]\n.*True\nthe first call: 0\.5",
    "profiling": r"1,000,000 entries: .* peak memory",
    "capabilities": r"ran on: graphics\n.*quantum=1",
    "option_pricing --tasks 50 --paths 1000": r"simulated 7\.\d+ \+- 0\.\d+, exact 7\.1281",
    "bigrams": r"pairs in 400 files",
    "distinctive_words": r"most common pairs: .*\n(.*\n)*.* tasks in ",
    "custom_serializer": r"A +11\.5",
    "grid_search": r"C=\S+ +gamma=\S+ +accuracy 0\.97",
    "scikit_learn": r"best settings: C=\S+, accuracy 0\.9\d\nrandom forest: accuracy 0\.[89]\d",
}
NEEDS = {
    "data_frames": ("pandas",),
    "custom_serializer": ("pandas", "pyarrow"),
    "grid_search": ("sklearn",),
    "scikit_learn": ("sklearn",),
}


def run_example(name: str, *arguments: str, cwd: Path) -> str:
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        env=child_environment(),
        cwd=cwd,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.parametrize("command", SAYS)
def test_example_says_what_it_promises(command: str, tmp_path: Path) -> None:
    name, *arguments = command.split()
    missing = [module for module in NEEDS.get(name, ()) if find_spec(module) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    assert re.search(SAYS[command], run_example(name, *arguments, cwd=tmp_path))


def test_mandelbrot_writes_an_image(tmp_path: Path) -> None:
    run_example("mandelbrot", "--width", "160", "--output", "set.png", cwd=tmp_path)
    image = (tmp_path / "set.png").read_bytes()
    assert image.startswith(b"\x89PNG")
    assert struct.unpack(">II", image[16:24]) == (160, 120)


@pytest.mark.parametrize("arguments", [["--help"], ["--files", "5", "-h"]])
def test_the_demo_explains_itself_without_setting_anything_up(arguments: list[str], tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "scripts", tmp_path / "scripts")
    finished = subprocess.run(
        ["sh", str(tmp_path / "scripts" / "demo"), *arguments], capture_output=True, text=True, timeout=50
    )
    assert finished.returncode == 0 and not finished.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["scripts"]
    options = re.findall(r"--\w+", run_example("distinctive_words", "--help", cwd=tmp_path))
    assert set(options) == set(re.findall(r"--\w+", finished.stdout))
