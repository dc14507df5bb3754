"""Descriptors that tell of the end of a process, with and without pidfds."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from scaler_protocol.command.exit_descriptor import open_exit_descriptor


@pytest.fixture(params=["pidfd", "no pidfd"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no pidfd":
        monkeypatch.setattr("os.pidfd_open", refuse)


def refuse(pid: int) -> int:
    raise OSError(38, "Function not implemented")


def is_readable(descriptor: int, timeout_seconds: float = 0.0) -> bool:
    return bool(select.select([descriptor], [], [], timeout_seconds)[0])


def test_the_end_of_a_child_is_seen_and_the_child_is_still_to_be_reaped(kernel: None) -> None:
    child = subprocess.Popen(["sleep", "60"])
    descriptor = open_exit_descriptor(child.pid)
    try:
        assert not is_readable(descriptor)
        child.kill()
        assert is_readable(descriptor, 20)
    finally:
        os.close(descriptor)
        assert child.wait() == -signal.SIGKILL


def test_a_child_that_has_been_reaped_has_ended(kernel: None) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    try:
        descriptor = open_exit_descriptor(child.pid)
    except ProcessLookupError:
        return
    assert is_readable(descriptor, 20)
    os.close(descriptor)


WATCHER = """
import os, select, sys
from scaler_protocol.command.exit_descriptor import open_exit_descriptor
def refuse(pid):
    raise OSError(38, "Function not implemented")
if sys.argv[1] == "no pidfd":
    os.pidfd_open = refuse
descriptor = open_exit_descriptor(os.getppid())
assert not select.select([descriptor], [], [], 0)[0]
print("watching", flush=True)
assert select.select([descriptor], [], [], 20)[0]
print("ended", flush=True)
"""


@pytest.mark.parametrize("kernel", ["pidfd", "no pidfd"])
def test_the_end_of_a_parent_is_seen(kernel: str) -> None:
    source = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    command = [sys.executable, "-c", source, WATCHER, kernel]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "watching\n"
        parent.kill()
        assert parent.stdout.readline() == "ended\n"
