"""The limit of open descriptors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scaler_protocol.command.descriptors import require_descriptors
from tests.support.commands import command_line
from tests.support.descriptors import free_descriptors

RAISE_LIMIT = """
import resource
from scaler_protocol.command.descriptors import allow_many_descriptors
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
allow_many_descriptors()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
"""

READ_SNAPSHOT = """
import resource
from scaler_protocol.monitor import feed
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
try:
    feed.decode(b"anything")
except OSError as error:
    assert "Cannot read" in str(error) and "ulimit -n" in str(error)
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
try:
    feed.decode(b"anything")
except feed.FeedError:
    print("goes on")
"""

COMMANDS = ["scaler_scheduler", "scaler_cluster", "scaler_worker_manager local", "scaler_top", "scaler_ui"]


def test_the_limit_is_raised_as_far_as_it_goes() -> None:
    subprocess.run([sys.executable, "-c", RAISE_LIMIT], check=True, timeout=30)


def test_a_lack_is_one_sentence_with_the_remedy() -> None:
    with free_descriptors(0), pytest.raises(OSError, match=r"^Cannot create a client: .* open only .*ulimit -n"):
        require_descriptors(1, "create a client")
    require_descriptors(1, "create a client")


@pytest.mark.parametrize("limit", [6, 12, 20])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_starts_with_too_few_says_so_in_one_line(command: str, limit: int) -> None:
    arguments = command_line(*command.split(), "tcp://127.0.0.1:1")
    limited = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(limit), *arguments]
    ended = subprocess.run(limited, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert f"Cannot start: this process may open only {limit} files" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["scaler_top", "scaler_ui"])
def test_a_soft_limit_that_is_too_low_is_raised(command: str) -> None:
    arguments = command_line(command, "tcp://127.0.0.1:70000")
    limited = ["sh", "-c", 'ulimit -Sn "$0" && exec "$@"', "20", *arguments]
    ended = subprocess.run(limited, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "70000" in ended.stderr and "files" not in ended.stderr


def test_a_state_of_the_cluster_that_cannot_be_read_does_not_end_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", READ_SNAPSHOT], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("goes on\n", "")
