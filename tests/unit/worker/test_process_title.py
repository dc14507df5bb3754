"""The title that tools show for a worker process."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHOW = """
import sys
from pathlib import Path
from scaler_worker.worker_process.process_title import ProcessTitle
title = ProcessTitle("vm-3")
for function in eval(sys.argv[1]):
    title.show(function)
print(ascii(Path("/proc/self/cmdline").read_text()), sys.argv[1] == eval(repr(sys.argv[1])))
"""


def shown(functions: list[str]) -> str:
    """The command line of a process that has shown these functions, one after the other."""
    command = [sys.executable, "-c", SHOW, repr(functions), "x" * 100]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line, _, intact = text.rpartition(" ")
    assert intact.strip() == "True"
    return str(eval(line)).rstrip("\0")


@pytest.mark.parametrize(
    ("functions", "title"),
    [
        ([""], "scaler worker vm-3"),
        (["price_option"], "scaler worker vm-3: price_option"),
        (["price_option", ""], "scaler worker vm-3"),
        (["a" * 50, "größe"], "scaler worker vm-3: größe"),
        (["\x1b[31mred\n\0"], "scaler worker vm-3: ?[31mred??"),
    ],
)
def test_the_title_names_worker_and_function(functions: list[str], title: str) -> None:
    assert shown(functions) == title


def test_a_long_name_is_cut() -> None:
    title = shown(["f" * 10_000])
    assert title.startswith("scaler worker vm-3: ffff") and len(title) < 5_000
