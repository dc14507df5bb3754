"""Programs of users pass the type checkers, and their mistakes do not: ``user_code`` has an ignore comment on each line
that must be an error, and the checkers report comments that are not needed."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("user_code.py")
PYRIGHT_SETTINGS = {
    "typeCheckingMode": "standard",
    "enableTypeIgnoreComments": True,
    "reportUnnecessaryTypeIgnoreComment": "error",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Outside the repository, whose settings are not those of a user."""
    return Path(shutil.copy(PROGRAM, tmp_path))


@pytest.mark.timeout(600)
def test_mypy(program: Path) -> None:
    options = ["--strict", "--warn-unused-ignores", "--cache-dir", str(program.parent / "cache")]
    assert check("mypy", *options, str(program)) == ""


@pytest.mark.timeout(600)
def test_pyright(program: Path) -> None:
    settings = program.with_name("pyrightconfig.json")
    settings.write_text(json.dumps(PYRIGHT_SETTINGS))
    options = ["--project", str(settings), "--pythonpath", sys.executable, "--level", "error"]
    assert check("basedpyright", *options, str(program)) == ""


def check(tool: str, *arguments: str) -> str:
    """What the tool finds; empty: nothing."""
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    command = [sys.executable, "-m", tool, *arguments]
    done = subprocess.run(command, cwd=Path(arguments[-1]).parent, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
