"""Through which address of this host other hosts reach it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence

from scaler_protocol.command import BadInput
from scaler_protocol.command.logs import plain_text
from scaler_worker.manager.core.ssh_hosts import RemoteHost, parse_host
from scaler_worker.manager.shell.ssh_connection import ssh_command

_ANSWER_SECONDS = 10.0
_LOOPBACK = "127.0.0.1"


def address_for_hosts(hosts: Sequence[str], ssh_config: str | None) -> str:
    """A free port at the address from which this host reaches the first of the others. ``hosts`` may be one text, with
    commas, as on a command line. Raises BadInput."""
    texts = hosts.split(",") if isinstance(hosts, str) else map(str, hosts)
    try:
        given = [parse_host(each.strip()) for each in texts if each.strip()]
    except ValueError as error:
        raise BadInput(f"Cannot use hosts: {error}") from None
    source = _first_source([each for each in given if not each.is_local], ssh_config)
    return f"tcp://[{source}]:0" if ":" in source else f"tcp://{source}:0"


def _first_source(hosts: Sequence[RemoteHost], ssh_config: str | None) -> str:
    """Raises BadInput if none of the hosts is known: the manager says what is wrong with one among others."""
    problems = []
    for host in hosts:
        try:
            source = _source_address(host, ssh_config)
        except BadInput as error:
            problems.append(error)
        else:
            if source != _LOOPBACK:
                return source
    if problems and len(problems) == len(hosts):
        raise problems[0]
    return _LOOPBACK


def _source_address(host: RemoteHost, ssh_config: str | None) -> str:
    name = _name_in_network(host, ssh_config)
    try:
        family, _, _, _, place = socket.getaddrinfo(name, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise BadInput(
            f"Cannot find the address at which {host.text} reaches this host: {name}: {error.strerror}. Correct the "
            "name of the host, or start a scheduler and give its address."
        ) from None


def _name_in_network(host: RemoteHost, ssh_config: str | None) -> str:
    """Return the name of the host in the configuration of ssh."""
    command = ssh_command(host, ssh_config, "-G")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS)
    except FileNotFoundError:
        raise BadInput("Cannot run ssh: this host has no such program. Install openssh-client.") from None
    except subprocess.TimeoutExpired:
        return host.host
    if done.returncode:
        said = plain_text(" ".join(done.stderr.split())).rstrip(".")
        raise BadInput(f"Cannot use the configuration of ssh: {said}. Correct it, or give another file.")
    words = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("hostname ")]
    return words[0][1] if words else host.host
