"""The linter, the formatter and the type checker find nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.unit.architecture.sources import REPOSITORY

TOOLS = [["ruff", "check", "--quiet"], ["ruff", "format", "--check", "--quiet"], ["mypy"]]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", TOOLS, ids=" ".join)
def test_a_tool_finds_nothing(command: list[str]) -> None:
    if importlib.util.find_spec(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([sys.executable, "-m", *command], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
