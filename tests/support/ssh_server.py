"""A real OpenSSH server with keys and a configuration of its own, and the configuration of clients that reach it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.commands import REPOSITORY, Command, is_bound
from tests.support.ports import free_port
from tests.support.waiting import wait_until

PRIVILEGE_SEPARATION_FOLDER = Path("/run/sshd")


@dataclass(frozen=True)
class SSHServer:
    """``config``: for clients, which know its host key and have a key that it accepts. ``home``: $SCALER_HOME of what
    it starts."""

    command: Command
    host: str
    port: int
    config: Path
    home: Path

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def folder(self) -> Path:
        return self.config.parent

    def config_without(self, word: str) -> Path:
        """The clients' configuration without the lines that contain the word."""
        lines = self.config.read_text().splitlines(keepends=True)
        other = self.folder / f"without-{word}"
        other.write_text("".join(line for line in lines if word not in line))
        return other

    def processes(self, word: str) -> list[int]:
        """Process ids of what it has started, with this word in the command line."""
        return [each.pid for each in self.command.family() if word in _command_line(each)]


def _command_line(process: psutil.Process) -> str:
    """Empty: it has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def sshd() -> str:
    """The program's path. Skips the test where there is none."""
    found = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("there are no OpenSSH server and client")
    if os.geteuid() == 0:
        PRIVILEGE_SEPARATION_FOLDER.mkdir(mode=0o755, exist_ok=True)
    return found


@contextmanager
def ssh_server(folder: Path, host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> Iterator[SSHServer]:
    """``prefix``: what the command line begins with, to run it on another host."""
    program, port, home = sshd(), free_port(), folder / "home"
    home.mkdir()
    for name in ("host_key", "user_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True, timeout=60
        )
    (folder / "known").write_text(f"[{host}]:{port} {(folder / 'host_key.pub').read_text()}")
    config = folder / "config"
    config.write_text(
        f"UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile /dev/null\nIdentityAgent none\n"
        f"IdentityFile {folder}/user_key\nIdentitiesOnly yes\n"
    )
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress {host}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/user_key.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication yes\nPermitRootLogin yes\n"
        f"SetEnv SCALER_HOME={home} PYTHONPATH={REPOSITORY} SCALER_RESOURCE_WIDGET=0\n"
    )
    with Command([*prefix, program, "-D", "-e", "-f", str(folder / "sshd_config")]) as command:
        command.wait_for_output(r"Server listening on")
        if not prefix:
            wait_until(lambda: is_bound(f"tcp://{host}:{port}"))
        yield SSHServer(command, host, port, config, home)
        command.remember_family()


def stand_in_for_program(path: Path, script: str) -> str:
    """A program that is run in place of another one, such as Python on a host."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)
