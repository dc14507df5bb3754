"""Two hosts on one machine: network namespaces with addresses of their own, and so with object stores of their own. And
containers that share the network: namespaces with processes of their own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

Pair = tuple[str, str]


@contextmanager
def two_hosts(addresses: Pair) -> Iterator[Pair]:
    """The names of two namespaces that reach one another at these addresses. Skips the test where there can be none."""
    if os.getuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
        pytest.skip("only root can make network namespaces, with the commands ip and tc")
    mark = uuid.uuid4().hex[:8]
    names = (f"sc{mark}a", f"sc{mark}b")
    try:
        try:
            _connect(names, addresses)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no two hosts can be made here: {shlex.join(error.cmd)}: {error.stderr.strip()}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30)


def _connect(names: Pair, addresses: Pair) -> None:
    for name in names:
        run("ip", "netns", "add", name)
    run("ip", "-n", names[0], "link", "add", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
    for name, address in zip(names, addresses, strict=True):
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", name)
        run("ip", "-n", name, "link", "set", name, "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        run(*on(name), "true")


def on(name: str) -> list[str]:
    """What a command line begins with to run on that host."""
    return ["ip", "netns", "exec", name]


def apart(*options: str) -> list[str]:
    """What a command line begins with to run among processes of its own. Skips the test where that cannot be. It ends
    with the process that this starts, whose child it is."""
    command = ["unshare", "--pid", "--fork", "--kill-child", *options]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True, timeout=30).returncode:
        pytest.skip("no pid namespace can be made here")
    return command


def received_bytes(name: str) -> int:
    """By that host, on the wire."""
    return int(run(*on(name), "cat", f"/sys/class/net/{name}/statistics/rx_bytes"))


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
