"""CURVE keys: what protects connections that other machines can reach.

A directory named by $SCALER_KEYS holds one key per file: NAME.key is secret, NAME.pub is its public half. With it every
tcp connection is encrypted, and what a peer may do is the role of its key:

    observe   watch the monitor stream          observe.key
    submit    be a client                       submit.key
    work      be a worker                       work.key
    admin     all of it, and shut down          admin.key

The scheduler's host has scheduler.key and the public halves of those who may connect: ROLE.pub, and ROLE-NAME.pub for
as many more of that role as there are. Every other host has the public halves and the secret keys of what it is to do:
the object stores of hosts fetch from one another.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scaler_protocol.address import Address
from scaler_protocol.messages import Role
from scaler_protocol.private_file import read_private_file, write_private_file

VARIABLE = "SCALER_KEYS"
_KEY = re.compile(rb"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")  # Z85
_SCHEDULER = "scheduler"
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN)
"""Errors that are no fault of a file."""

_ROLES = {role.name.lower(): role for role in Role}


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """What a listener needs. ``admitted``: the roles that it lets in; None among them: also who is known to nobody, to
    be told so in words."""

    secret: bytes
    directory: Path
    admitted: frozenset[Role | None]

    def user_of(self, public: bytes) -> bytes | None:
        """Names whoever has the secret half of ``public``; None: it is not let in. Reads the directory each time, so
        that a key can be added or taken away while the listener runs. OSError: it cannot be read now."""
        role = _roles_in(self.directory, _read_if_good).get(public)
        if role not in self.admitted:
            return None
        return b":".join(((role.name.lower() if role is not None else "").encode(), public))


@dataclass(frozen=True, slots=True)
class PeerKeys:
    secret: bytes
    public: bytes
    server_public: bytes


def role_of_user(user: bytes) -> Role | None:
    """The role of whom ``ServerKeys.user_of`` named so; None: its key is not known."""
    return _ROLES.get(user.partition(b":")[0].decode())


def key_of_user(user: bytes) -> bytes:
    """The public key of whom ``ServerKeys.user_of`` named so."""
    return user.partition(b":")[2]


def may_act_as(role: Role | None, wanted: Role) -> bool:
    return role is not None and role in (wanted, Role.ADMIN)


def keys_directory() -> Path | None:
    """None: connections are not encrypted."""
    configured = os.environ.get(VARIABLE)
    return Path(configured) if configured else None


# ---- what listens ----------------------------------------------------------------------------------------------------


def scheduler_keys(address: Address) -> ServerKeys | None:
    """What a scheduler that listens on ``address`` needs; None without a directory, or off the network. Raises
    ValueError with a sentence when a key is missing or wrong, PermissionError when others can read it."""
    return _server_keys(address, _SCHEDULER, frozenset((None, *Role)))


def monitor_keys(address: Address) -> ServerKeys | None:
    """As ``scheduler_keys``, for the monitor address. There nothing can be said to who is not let in."""
    return _server_keys(address, _SCHEDULER, frozenset((Role.OBSERVE, Role.ADMIN)))


def store_keys(address: Address) -> ServerKeys | None:
    """As ``scheduler_keys``, for an object store that others fetch from: it stands for the hosts that work."""
    return _server_keys(address, "work", frozenset((Role.SUBMIT, Role.WORK, Role.ADMIN)))


def _server_keys(address: Address, name: str, admitted: frozenset[Role | None]) -> ServerKeys | None:
    directory = keys_directory()
    if directory is None or address.scheme != "tcp":
        return None
    secret = _read(directory / f"{name}.key")
    if not _roles_in(directory, _read):
        raise ValueError(f"{directory} has no public key of a peer, such as submit.pub: nobody could connect.")
    return ServerKeys(secret, directory, admitted)


def _roles_in(directory: Path, read: Callable[[Path], bytes]) -> dict[bytes, Role]:
    """By public key, in the order of the roles: a key that is there twice has the last of them."""
    files = [name for name in sorted(os.listdir(directory)) if name.endswith(".pub")]
    return {
        read(directory / file): role
        for name, role in _ROLES.items()
        for file in files
        if file.startswith((f"{name}.", f"{name}-"))
    }


# ---- what connects ---------------------------------------------------------------------------------------------------


def peer_keys(address: Address, role: Role, directory: Path | None = None, server: str = _SCHEDULER) -> PeerKeys | None:
    """What a peer of this role needs that connects to ``address``: it uses admin.key when it has one, else the key of
    its role. ``directory`` None: the one that $SCALER_KEYS names. Otherwise as ``scheduler_keys``."""
    directory = directory or keys_directory()
    if directory is None or address.scheme != "tcp":
        return None
    return PeerKeys(*map(_read, files_of_peer(directory, role, server)))


def files_of_peer(directory: Path, role: Role, server: str = _SCHEDULER) -> tuple[Path, Path, Path]:
    """Where its secret key, its public key and that of the other end are."""
    name = "admin" if (directory / "admin.key").exists() else role.name.lower()
    return directory / f"{name}.key", directory / f"{name}.pub", directory / f"{server}.pub"


client_keys: Callable[[Address], PeerKeys | None] = partial(peer_keys, role=Role.SUBMIT)
worker_keys: Callable[[Address], PeerKeys | None] = partial(peer_keys, role=Role.WORK)


def store_peer_keys(address: Address) -> PeerKeys | None:
    """What a store needs that fetches from another: hosts that only submit have stores, too."""
    directory = keys_directory()
    works = directory is not None and (directory / "work.key").exists()
    return peer_keys(address, Role.WORK if works else Role.SUBMIT, server="work")


# ---- files -----------------------------------------------------------------------------------------------------------


def generate(directory: Path, new_pair: Callable[[], tuple[bytes, bytes]]) -> list[Path]:
    """Write a new set of keys, each readable by this user only; ``new_pair`` makes a public and a secret key. Raises
    FileExistsError rather than replace any."""
    paths = [directory / f"{name}.key" for name in (_SCHEDULER, *_ROLES)]
    for path in (*paths, *(path.with_suffix(".pub") for path in paths)):
        if path.exists():
            raise FileExistsError(f"{path} exists already: remove it first, or choose another directory.")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in paths:
        public, secret = new_pair()
        write_private_file(path, secret + b"\n")
        write_private_file(path.with_suffix(".pub"), public + b"\n")
    return paths


def _read_if_good(path: Path) -> bytes:
    try:
        return _read(path)
    except (ValueError, OSError) as error:  # a file that has just been put there wrongly shuts nobody else out
        if isinstance(error, OSError) and error.errno in _PASSING:
            raise
        return b""


def _read(path: Path) -> bytes:
    key = read_private_file(path, is_secret=path.suffix == ".key")
    if key is None:
        raise ValueError(f"{path} is missing: make keys with scaler_keygen, or unset {VARIABLE}.")
    if not _KEY.fullmatch(key):
        raise ValueError(f"{path} is not a key: make keys with scaler_keygen.")
    return key
