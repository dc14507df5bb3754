"""Making key files: new sets, keys of a name, and new keys in place of old ones."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from scaler_protocol.keys import SCHEDULER, parse_public_key, read_public_file
from scaler_protocol.messages import Role
from scaler_protocol.private_file import create_private_file, replace_private_file

NewPair = Callable[[], tuple[bytes, bytes]]
"""Makes a public and a secret key."""

ROLE_NAMES = tuple(role.name.lower() for role in Role)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]*")
_TIME = "%Y%m%dT%H%M%SZ"


def generate(directory: Path, new_pair: NewPair, names: Sequence[str] = (), expires: float | None = None) -> list[Path]:
    """Write key pairs, each readable by this user only: ``names`` are as ``submit`` or ``submit-alice``; none: a whole
    set. Raises FileExistsError rather than replace any."""
    paths = [directory / f"{name}.key" for name in names or (SCHEDULER, *ROLE_NAMES)]
    for path in (*paths, *(path.with_suffix(".pub") for path in paths)):
        if path.exists():
            raise FileExistsError(_exists_text(path))
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in paths:
        public, secret = new_pair()
        is_server = path.stem == SCHEDULER
        _write(path, secret + b"\n")
        _write(_public_file(path), _public_content(public, None if is_server else expires))
    return paths


def name_of_file(role: str, name: str) -> str:
    """ROLE or ROLE-NAME. Raises ValueError."""
    if role not in ROLE_NAMES:
        raise ValueError(f"Cannot make a key: {role!r} is not a role. Use one of {', '.join(ROLE_NAMES)}.")
    if name and not _NAME.fullmatch(name):
        raise ValueError(f"Cannot name a key {name!r}. Begin with a letter or digit; use letters, digits and _ . @ + -")
    return f"{role}-{name}" if name else role


def rotate(
    directory: Path, new_pair: NewPair, keep_seconds: float, names: Sequence[str] = (), expires: float | None = None
) -> list[Path]:
    """Write a new pair for each public key of a peer in ``directory`` (those of ``names``; none: all). The old public
    half stays valid for ``keep_seconds`` in a file of its own. At every moment there is a valid public key, and one for
    every secret key in the directory. Returns the new secret keys. Raises ValueError, OSError."""
    now = time.time()
    _remove_expired(directory, now)
    present = {path.stem for path in directory.glob("*.pub") if _is_of_peer(path)}
    missing = set(names) - present
    if missing or not present:
        names_text = " and no ".join(sorted(missing)) or "submit"
        raise ValueError(
            f"Cannot replace keys in {directory}: it has no {names_text}.pub. Make keys with scaler_keygen."
        )
    changed = sorted(set(names) or present)
    for name in changed:
        _rotate_one(directory / f"{name}.key", new_pair, now + keep_seconds, expires)
    return [directory / f"{name}.key" for name in changed]


def _rotate_one(path: Path, new_pair: NewPair, keep_until: float, expires: float | None) -> None:
    """Old public half under its other name, then the new one, then the secret: each step is complete in itself."""
    public, secret = new_pair()
    current = _public_file(path)
    old, old_expires = parse_public_key(current, read_public_file(current))
    until = min(keep_until, old_expires)
    while not create_private_file(_kept_file(path, until), _public_content(old, until)):
        until += 1  # it was rotated just now
    replace_private_file(current, _public_content(public, expires))
    replace_private_file(path, secret + b"\n")


def _remove_expired(directory: Path, now: float) -> None:
    for path in directory.glob("*.before-*.pub"):
        if parse_public_key(path, read_public_file(path))[1] <= now:
            path.unlink()


def _is_of_peer(path: Path) -> bool:
    role = path.stem.partition("-")[0]
    return role in ROLE_NAMES and ".before-" not in path.name


def _public_file(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.key')}.pub")


def _kept_file(path: Path, until: float) -> Path:
    return path.with_name(f"{path.stem}.before-{_moment(until).strftime(_TIME)}.pub")


def _public_content(public: bytes, expires: float | None) -> bytes:
    if expires is None:
        return public + b"\n"
    return public + b"\nexpires " + _moment(expires).strftime("%Y-%m-%dT%H:%M:%SZ").encode() + b"\n"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _write(path: Path, data: bytes) -> None:
    if not create_private_file(path, data):
        raise FileExistsError(_exists_text(path))


def _exists_text(path: Path) -> str:
    return f"Cannot write {path}: it already exists. Remove it first, or choose another directory."
