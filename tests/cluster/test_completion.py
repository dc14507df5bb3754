"""Completion of command lines in a real bash, with the scripts of ``scaler completion``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.commands import command_line

COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
echo "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shown = subprocess.run(command_line("scaler", "completion", "bash"), capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    path = tmp_path_factory.mktemp("completion") / "script"
    path.write_text(shown.stdout)
    return path


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("scaler", "st"), ["status", "stack"]),
        (("scaler", "cancel", "--f"), ["--function"]),
        (("scaler_scheduler", "--event-loop", ""), ["builtin", "uvloop"]),
        (("scaler_worker_manager", "sl"), ["slurm"]),
        (("scaler_worker_manager", "slurm", "--parti"), ["--partition"]),
        (("scaler_keygen", "--ro"), ["--roles", "--rotate"]),
    ],
)
def test_words_are_completed(script: Path, words: tuple[str, ...], completed: list[str]) -> None:
    shown = subprocess.run(["bash", "-c", COMPLETE, "bash", script, *words], capture_output=True, text=True)
    assert shown.stdout.split() == completed, shown.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_have_scripts(shell: str) -> None:
    shown = subprocess.run(command_line("scaler", "completion", shell), capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "") and "scaler_scheduler" in shown.stdout


@pytest.mark.parametrize(
    "arguments", [("scaler", "completion", "cmd"), ("scaler_cluster", "--print-completion", "cmd")]
)
def test_an_unknown_shell_is_named(arguments: tuple[str, ...]) -> None:
    shown = subprocess.run(command_line(*arguments), capture_output=True, text=True)
    assert shown.returncode == 2 and "Cannot complete commands in 'cmd'. Give one of bash, zsh," in shown.stderr
