"""``scaler up``, ``status``, ``progress`` and ``down`` with workers on hosts that are reached through SSH. Some of them
are broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from scaler_protocol.key_files import generate
from scaler_protocol.transport.curve_authentication import new_key_pair
from tests.support.commands import child_environment, command_line
from tests.support.namespaces import on, two_hosts
from tests.support.ports import free_port
from tests.support.ssh_server import SSHServer, ssh_server
from tests.support.waiting import wait_until

HERE, THERE, NOWHERE = "10.231.12.1", "10.231.12.2", "10.231.12.9"
UNKNOWN = "no-such-host.invalid"

WITH_OWN_MEMORY = 'mount -t tmpfs none /dev/shm; exec "$@"'
WITHOUT_PYTHON = 'mount --bind /dev/null "$0"; exec "$@"'
WITH_FULL_MEMORY = 'mount -t tmpfs -o size=64k none /dev/shm; head -c 100000 /dev/zero > /dev/shm/full; exec "$@"'
FIRST_CALL = "import sys, scaler; print(scaler.Client(sys.argv[1]).submit(pow, 2, 5).result())"


@dataclass(frozen=True)
class Hosts:
    """``name``: of the namespace in which commands run. ``good``, ``bare`` and ``full`` have SSH servers: one can run
    workers, one has no Python, and one has no room in /dev/shm."""

    name: str
    good: SSHServer
    bare: SSHServer
    full: SSHServer

    @property
    def servers(self) -> tuple[SSHServer, ...]:
        return self.good, self.bare, self.full

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*on(self.name), *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100,
            env=child_environment(),
        )  # fmt: skip

    def scaler(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(*command_line("scaler", *arguments))


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    if not shutil.which("unshare"):
        pytest.skip("hosts with file systems of their own are made with unshare")
    generate(tmp_path / "keys", new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    monkeypatch.chdir(tmp_path)
    apart = ("unshare", "--mount", "sh", "-c")
    prefixes = {
        "good": (*apart, WITH_OWN_MEMORY, "-"),
        "bare": (*apart, WITHOUT_PYTHON, sys.executable),
        "full": (*apart, WITH_FULL_MEMORY, "-"),
    }
    with two_hosts((HERE, THERE)) as (here, there), ExitStack() as running:
        servers = {}
        for name, prefix in prefixes.items():
            (tmp_path / name).mkdir()
            servers[name] = running.enter_context(ssh_server(tmp_path / name, THERE, [*on(there), *prefix]))
        yield Hosts(here, **servers)


def ssh_config(folder: Path, servers: tuple[SSHServer, ...]) -> Path:
    """One configuration for all servers."""
    (folder / "known").write_text("".join((each.folder / "known").read_text() for each in servers))
    identities = "".join(f"IdentityFile {each.folder}/user_key\n" for each in servers)
    config = folder / "ssh_config"
    config.write_text(
        f"UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile /dev/null\nIdentityAgent none\n"
        f"{identities}IdentitiesOnly yes\n"
    )
    return config


def test_a_stack_with_broken_hosts_says_what_each_of_them_needs(hosts: Hosts, tmp_path: Path) -> None:
    """Its scheduler listens everywhere: the manager is told an address that the hosts reach."""
    address = f"tcp://{HERE}:{(port := free_port())}"
    closed = f"{THERE}:{free_port()}"
    stranger = f"no-such-user@{hosts.good.name}"
    names = [UNKNOWN, hosts.good.name, hosts.bare.name, hosts.full.name, stranger, closed, NOWHERE]
    entries = ", ".join(f'"{name}=1"' for name in names)
    (tmp_path / "cluster.toml").write_text(
        f'[scheduler]\naddress = "tcp://0.0.0.0:{port}"\n[manager]\nkind = "ssh"\nhosts = [{entries}]\n'
        f'ssh-config = "{ssh_config(tmp_path, hosts.servers)}"\n'
    )
    memory = f"/proc/{hosts.good.command.pid}/root/dev/shm"
    up = hosts.scaler("up", "--detach")
    try:
        assert up.returncode == 0 and f"scaler status {address}\n" in up.stdout, up.stderr
        expected = {
            hosts.bare.name: "it(s Python)? has .*--remote-python",
            hosts.full.name: "it cannot keep the keys in its memory, /dev/shm: No space left on device. Make room",
            stranger: "it does not accept a key of yours and asks for a password. Copy your public key",
            closed: "no SSH server listens there. Start sshd on it",
            UNKNOWN: "no host of this name is known.",
            NOWHERE: "it does not answer. Check that it runs and is reachable.",
        }

        def all_told() -> bool:
            shown = hosts.scaler("status", address).stdout
            found = [re.search(f" {re.escape(name)}: {text}", shown) for name, text in expected.items()]
            return all(found)

        wait_until(all_told, 60)
        assert os.listdir(memory), "the keys of the workers"
        assert hosts.run(sys.executable, "-c", FIRST_CALL, address).stdout == "32\n"
        assert "all tasks" in hosts.scaler("progress", address, "--once").stdout
    finally:
        down = hosts.scaler("down")
    assert (down.returncode, down.stdout) == (0, "Stopped the stack of cluster.toml.\n")
    wait_until(lambda: not any(each.command.family() for each in hosts.servers))
    assert os.listdir(memory) == []
    left = [path.name for path in hosts.good.home.rglob("*") if path.is_file()]
    assert left in ([], ["token"]), left
