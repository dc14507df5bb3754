"""The paths at which schedulers of this machine publish for monitors by default, by the address of the scheduler.

The socket lives in a folder that only this user can write to, and the well-known name in /tmp is a symbolic link to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from scaler_protocol.address import Address, default_monitor_address, parse_address
from scaler_protocol.security import home_directory

_LAST_FOLDER = "/tmp/scaler-{user}"
_ALL_HOSTS = ("*", "0.0.0.0", "::")
"""The hosts of schedulers that listen at all addresses of their machine."""


def socket_folders() -> Iterator[str]:
    """The folders in which this user's schedulers make their sockets, the best first."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and is_own(runtime):
        yield os.path.join(runtime, "scaler")
    with contextlib.suppress(ValueError):  # this user has no home
        # Several hosts may share a home, but a socket is reached from its own host only.
        yield str(Path(os.path.abspath(home_directory())) / (socket.gethostname() or "localhost"))
    yield _LAST_FOLDER.format(user=os.geteuid())


def is_own(path: str) -> bool:
    """This user owns the file or folder."""
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False


def socket_name(scheduler: Address) -> str:
    """The name of the socket in its folder."""
    name = os.path.basename(default_monitor_address(scheduler).partition("://")[2])
    if scheduler.scheme != "ipc":
        return name
    digest = hashlib.blake2b(os.fsencode(scheduler.path), digest_size=4).hexdigest()
    return f"{digest}_{name}"  # in other folders there may be others of this name


def well_known_link(scheduler: Address) -> str:
    """The path of the link in /tmp. Empty if there can be none."""
    public = default_monitor_address(scheduler)
    try:
        path = parse_address(public).path
    except ValueError:  # too long for any monitor
        return ""
    return "" if path.startswith("@") else path


def find_socket(scheduler: Address) -> str:
    """The path of the default monitor socket of a scheduler of this machine that listens at this address. Empty if
    there is none."""
    for address in _listening_addresses(scheduler):
        for path in _paths(address):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.stat(path).st_mode):
                    return path
    return ""


def _listening_addresses(reached: Address) -> Iterator[Address]:
    """The addresses of schedulers that are reached at ``reached``."""
    yield reached
    if reached.scheme == "tcp" and _is_of_this_machine(reached.host):
        for host in _ALL_HOSTS:
            yield replace(reached, host=host)


def _is_of_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.suppress(OSError, UnicodeError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        return True
    return False


def _paths(scheduler: Address) -> Iterator[str]:
    for folder in socket_folders():
        yield os.path.join(folder, socket_name(scheduler))
    if link := well_known_link(scheduler):
        yield link
