"""CURVE keys: what protects connections that other machines can reach.

A directory, made by ``scaler_keygen`` and named by $SCALER_KEYS, holds one key per file. With it every tcp connection
is encrypted, and whoever lacks the keys cannot connect. A scheduler's host needs scheduler.key and peer.pub, every
other host peer.key, peer.pub and scheduler.pub.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scaler_protocol.address import Address
from scaler_protocol.private_file import read_private_file, write_private_file

VARIABLE = "SCALER_KEYS"
_KEY_SIZE = 40  # characters of Z85


@dataclass(frozen=True, slots=True)
class SchedulerKeys:
    secret: bytes
    peer_public: bytes


@dataclass(frozen=True, slots=True)
class PeerKeys:
    secret: bytes
    public: bytes
    scheduler_public: bytes


def keys_directory() -> Path | None:
    """None: connections are not encrypted."""
    configured = os.environ.get(VARIABLE)
    return Path(configured) if configured else None


def scheduler_keys(address: Address) -> SchedulerKeys | None:
    """What a scheduler that listens on ``address`` needs; None without a directory, or off the network. Raises
    ValueError with a sentence when a key is missing or wrong, PermissionError when others can read it."""
    directory = keys_directory()
    if directory is None or address.scheme != "tcp":
        return None
    return SchedulerKeys(_read(directory / "scheduler.key"), _read(directory / "peer.pub"))


def peer_keys(address: Address, directory: Path | None = None) -> PeerKeys | None:
    """What a client, agent or monitor that connects to ``address`` needs; otherwise as ``scheduler_keys``.
    ``directory`` None: the one that $SCALER_KEYS names."""
    directory = directory or keys_directory()
    if directory is None or address.scheme != "tcp":
        return None
    files = (directory / name for name in ("peer.key", "peer.pub", "scheduler.pub"))
    return PeerKeys(*map(_read, files))


def store_keys(address: Address) -> SchedulerKeys | None:
    """What an object store that other hosts fetch from needs: stores are peers of one another, so both ends have the
    peers' pair."""
    keys = peer_keys(address)
    return None if keys is None else SchedulerKeys(keys.secret, keys.public)


def store_peer_keys(address: Address) -> PeerKeys | None:
    """What a store needs that fetches from another."""
    keys = peer_keys(address)
    return None if keys is None else PeerKeys(keys.secret, keys.public, keys.public)


def generate(directory: Path, new_pair: Callable[[], tuple[bytes, bytes]]) -> list[Path]:
    """Write a new set of keys, each readable by this user only; ``new_pair`` makes a public and a secret key. Raises
    FileExistsError rather than replace any."""
    paths = [directory / name for name in ("scheduler.key", "scheduler.pub", "peer.key", "peer.pub")]
    for path in paths:
        if path.exists():
            raise FileExistsError(f"{path} exists already: remove it first, or choose another directory.")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in paths[::2]:
        public, secret = new_pair()
        write_private_file(path, secret + b"\n")
        write_private_file(path.with_suffix(".pub"), public + b"\n")
    return paths


def _read(path: Path) -> bytes:
    key = read_private_file(path)
    if key is None:
        raise ValueError(f"{path} is missing: make keys with scaler_keygen, or unset {VARIABLE}.")
    if len(key) != _KEY_SIZE:
        raise ValueError(f"{path} is not a key: make keys with scaler_keygen.")
    return key
