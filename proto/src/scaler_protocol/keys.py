"""CURVE keys, which protect connections that other machines can reach.

A directory named by $SCALER_KEYS holds one key per file: NAME.key is secret, NAME.pub is its public half. With it every
tcp connection is encrypted, and what a peer may do is the role of its key:

    observe   watch the monitor stream          observe.key
    submit    be a client                       submit.key
    work      be a worker                       work.key
    admin     all of it, and shut down          admin.key

The scheduler's host has scheduler.key and the public halves of those who may connect: ROLE.pub, and ROLE-NAME.pub for
as many more of that role as there are. A second line in such a file, ``expires 2027-01-31``, ends the key with that day
(UTC). Every other host has scheduler.pub, the secret keys of its roles, and work.pub, because the object stores of
hosts fetch from one another.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from scaler_protocol.address import Address
from scaler_protocol.messages import Role
from scaler_protocol.private_file import read_private_file, read_protected_file

VARIABLE = "SCALER_KEYS"
SCHEDULER = "scheduler"
REREAD_SECONDS = 1.0
"""Maximum time until a key that was removed, or has expired, is noticed."""

_MISSED_SECONDS = 0.1
"""A key that is not known may have been written just now: then the files are read again, not more often than this."""

_MISSED_SHARE = 0.01
"""The most of the time that such reading may take: anyone can show keys that are not known, and there may be many
files."""

_DIGIT = rb"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]"
_NUMBER = rb"(?:(?![%$#])D{5}|%[0-9a-m]D{3}|%n[0-9a-zA-R]D{2}|%nS[0-9ab]D|%nSc0)".replace(b"D", _DIGIT)
"""At most 2**32 - 1: five digits of Z85 may be more."""

_KEY = re.compile(_NUMBER + b"{8}")
_DAY_SECONDS = 24 * 60 * 60.0
_EXPIRY_ADVICE = "Write a second line such as 'expires 2027-01-31', in UTC."
_EXPIRES = re.compile(r"expires (\d{4}-\d{2}-\d{2})(?:T(\d{2}:\d{2}:\d{2})Z)?")
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN)
"""Errors that a file did not cause."""

_ROLES = {role.name.lower(): role for role in Role}
_PUBLIC_FILE = re.compile(rf"({'|'.join(_ROLES)})(?:-([^:]+?))?(?:\.before-\d{{8}}T\d{{6}}Z)?\.pub")


class KeysError(ValueError):
    """Keys are missing or unusable. The message says what to do."""


class PublicKey(NamedTuple):
    """``expires``: seconds since 1970; infinite for one that does not. ``name`` is empty in ROLE.pub."""

    key: bytes
    role: Role
    name: str
    expires: float

    @property
    def user(self) -> bytes:
        """Names its holder: role, name and key, with colons between."""
        return b":".join((self.role.name.lower().encode(), self.name.encode("utf-8", "surrogateescape"), self.key))


class KnownKeys:
    """The public keys in a directory, which may change at any time. May be used from several threads. Raises OSError
    while the directory cannot be read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._keys: dict[bytes, PublicKey] = {}
        self._read_at = float("-inf")
        self._missed_seconds = 0.0
        self._unreadable: tuple[object, ...] = ()  # the last attempt's error
        self._changed_at = 0

    def find(self, public: bytes) -> PublicKey | None:
        """None: it is not known, or has expired."""
        with self._lock:
            if time.monotonic() >= self._read_at + REREAD_SECONDS:
                self._read()
            found = self._keys.get(public) if not self._unreadable else None
            if found is None and (self._has_new_files() or time.monotonic() >= self._read_at + self._missed_seconds):
                self._read()
                found = self._keys.get(public)
            self._check_read()
        return found if found is not None and time.time() < found.expires else None

    def users(self) -> frozenset[bytes]:
        """All whose keys are valid now."""
        with self._lock:
            if self._unreadable or time.monotonic() >= self._read_at + REREAD_SECONDS / 2:
                self._read()
            self._check_read()
            now = time.time()
            return frozenset(key.user for key in self._keys.values() if now < key.expires)

    def _check_read(self) -> None:
        """A file system that fails is not asked each time."""
        if self._unreadable:
            raise OSError(*self._unreadable)

    def _has_new_files(self) -> bool:
        return os.stat(self._directory).st_mtime_ns != self._changed_at

    def _read(self) -> None:
        began_at = time.monotonic()
        try:
            self._changed_at = os.stat(self._directory).st_mtime_ns
            self._keys = {each.key: each for each in public_keys(self._directory, _read_if_good)}
            self._unreadable = ()
        except OSError as error:
            self._unreadable = error.args or (0, "unknown")
        finally:
            self._read_at = time.monotonic()
            self._missed_seconds = max(_MISSED_SECONDS, (self._read_at - began_at) / _MISSED_SHARE)


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The keys of a listener. ``admitted``: the roles that it admits."""

    secret: bytes
    directory: Path
    admitted: frozenset[Role]
    known: KnownKeys = field(compare=False)

    def user_of(self, public: bytes) -> bytes | None:
        """The user that has the secret half of ``public``; None: it is not admitted. Keys can be added and removed
        while the listener runs. OSError: they cannot be read now."""
        found = self.known.find(public)
        return found.user if found is not None and found.role in self.admitted else None


@dataclass(frozen=True, slots=True)
class PeerKeys:
    """The keys of a peer: its secret key, from which the public one is derived, and the public key of the other end.
    ``older_server_publics``: those that the other end may still have, since it keeps its pair as long as it runs."""

    secret: bytes
    server_public: bytes
    older_server_publics: tuple[bytes, ...] = ()

    @property
    def server_key_count(self) -> int:
        return 1 + len(self.older_server_publics)

    def with_server_key(self, turn: int) -> PeerKeys:
        """The same with another key of the other end in place of the newest one, which is that of turn 0."""
        return replace(self, server_public=(self.server_public, *self.older_server_publics)[turn])


def role_of_user(user: bytes) -> Role | None:
    """The role in a name that ``PublicKey.user`` has made."""
    return _ROLES.get(user.partition(b":")[0].decode())


def name_of_user(user: bytes) -> str:
    """The name of the owner of a key: ``alice`` for ``submit-alice``. Empty: it has no name, or there is no key."""
    parts = user.split(b":", 2)
    return parts[1].decode("utf-8", "backslashreplace") if len(parts) > 1 else ""


def key_of_user(user: bytes) -> bytes:
    """The public key in a name that ``PublicKey.user`` has made."""
    return user.split(b":", 2)[-1]


def holder_of_user(user: bytes) -> str:
    """The holder of a key as its file is named: ``submit`` or ``submit-alice``."""
    return "-".join(part.decode("utf-8", "backslashreplace") for part in user.split(b":", 2)[:2] if part)


def is_same_holder(one: bytes, other: bytes) -> bool:
    """Return whether these users have the same key, or an older and a newer one of the same name and role."""
    return key_of_user(one) == key_of_user(other) or one.split(b":", 2)[:2] == other.split(b":", 2)[:2]


def may_act_as(role: Role | None, wanted: Role) -> bool:
    return role is not None and role in (wanted, Role.ADMIN)


def keys_directory() -> Path | None:
    """None: connections are not encrypted."""
    configured = os.environ.get(VARIABLE)
    return Path(configured) if configured else None


# ---- what listens ----------------------------------------------------------------------------------------------------


def scheduler_keys(address: Address) -> ServerKeys | None:
    """The keys of a scheduler that listens on ``address``; None without a directory, or off the network. Raises
    ValueError with a sentence when a key is missing or wrong, PermissionError when others can read it."""
    return _server_keys(address, SCHEDULER, frozenset(Role))


def monitor_keys(address: Address) -> ServerKeys | None:
    """Like ``scheduler_keys``, for the monitor address."""
    return _server_keys(address, SCHEDULER, frozenset((Role.OBSERVE, Role.ADMIN)))


def store_keys(address: Address) -> ServerKeys | None:
    """Like ``scheduler_keys``, for an object store that others fetch from: it represents the hosts that work."""
    return _server_keys(address, "work", frozenset((Role.SUBMIT, Role.WORK, Role.ADMIN)))


def _server_keys(address: Address, name: str, admitted: frozenset[Role]) -> ServerKeys | None:
    directory = keys_directory()
    if directory is None or address.scheme != "tcp":
        return None
    secret = read_key(directory / f"{name}.key")
    if not public_keys(directory):
        raise KeysError(
            f"Cannot use the keys in {directory}: it has no public key of a peer, such as submit.pub, so no peer could "
            "connect. Make keys with scaler_keygen."
        )
    return ServerKeys(secret, directory, admitted, KnownKeys(directory))


def public_keys(directory: Path, read: Callable[[Path], bytes] | None = None) -> list[PublicKey]:
    """Return the public keys in the order of the roles: of a key that exists twice, the last one counts. Raises as
    ``scheduler_keys``."""
    found = []
    for file in sorted(os.listdir(directory)):
        match = _PUBLIC_FILE.fullmatch(file)
        content = (read or read_public_file)(directory / file) if match is not None else b""
        if match is not None and content:
            key, expires = parse_public_key(directory / file, content)
            found.append(PublicKey(key, _ROLES[match[1]], match[2] or "", expires))
    return sorted(found, key=lambda each: each.role)


def parse_public_key(path: Path, content: bytes) -> tuple[bytes, float]:
    """The key, and when it expires. ValueError, with a sentence, for what is neither."""
    first, _, rest = content.partition(b"\n")
    if not _KEY.fullmatch(first.strip()):
        raise KeysError(f"Cannot use {path}: it is not a key. Make keys with scaler_keygen.")
    match = _EXPIRES.fullmatch(rest.decode(errors="replace").strip())
    if rest.strip() and match is None:
        raise KeysError(f"Cannot use {path}: its second line is not an expiry. {_EXPIRY_ADVICE}")
    try:
        return first.strip(), _expiry(match) if match is not None else float("inf")
    except ValueError as error:
        raise KeysError(f"Cannot use {path}: {error}. {_EXPIRY_ADVICE}") from None


def _expiry(match: re.Match[str]) -> float:
    """A day counts to its end."""
    day = datetime.fromisoformat(match[1] + "T" + (match[2] or "00:00:00")).replace(tzinfo=UTC)
    return day.timestamp() + (0.0 if match[2] else _DAY_SECONDS)


# ---- what connects ---------------------------------------------------------------------------------------------------


def peer_keys(address: Address, role: Role, directory: Path | None = None, server: str = SCHEDULER) -> PeerKeys | None:
    """The keys of a peer of this role that connects to ``address``: admin.key if it has one, otherwise the key of
    its role. ``directory`` None: the one that $SCALER_KEYS names. Otherwise as ``scheduler_keys``."""
    directory = directory or keys_directory()
    if directory is None or address.scheme != "tcp":
        return None
    secret, public = files_of_peer(directory, role, server)
    own = read_key(secret)
    return PeerKeys(own, parse_public_key(public, read_public_file(public))[0], _older_public_keys(public))


def _older_public_keys(public: Path) -> tuple[bytes, ...]:
    """Return the keys that this one has replaced and that are still valid, the newest first."""
    found = []
    for path in public.parent.glob(f"{public.stem}.before-*.pub"):
        content = _read_if_good(path) if _PUBLIC_FILE.fullmatch(path.name) else b""
        key, expires = parse_public_key(path, content) if content else (b"", 0.0)
        if time.time() < expires:
            found.append((expires, key))
    return tuple(key for _, key in sorted(found, reverse=True))


def files_of_peer(directory: Path, role: Role, server: str = SCHEDULER) -> tuple[Path, Path]:
    """Return where its secret key is, and the public one of the other end: admin.key, ROLE.key, or ROLE-NAME.key when
    there is one of that role alone."""
    name = role.name.lower()
    named = sorted(directory.glob(f"{name}-*.key"))
    usual = directory / f"{name}.key"
    secret = next((path for path in (directory / "admin.key", usual) if path.exists()), None)
    if secret is None:
        secret = named[0] if len(named) == 1 else usual
    return secret, directory / f"{server}.pub"


client_keys: Callable[[Address], PeerKeys | None] = partial(peer_keys, role=Role.SUBMIT)
worker_keys: Callable[[Address], PeerKeys | None] = partial(peer_keys, role=Role.WORK)


def store_peer_keys(address: Address) -> PeerKeys | None:
    """The keys of a store that fetches from another one: hosts that only submit have stores, too."""
    directory = keys_directory()
    works = directory is not None and files_of_peer(directory, Role.WORK)[0].exists()
    return peer_keys(address, Role.WORK if works else Role.SUBMIT, server="work")


# ---- files -----------------------------------------------------------------------------------------------------------


def read_key(path: Path) -> bytes:
    """A secret key. Raises as ``scheduler_keys``."""
    key = _checked(path, read_private_file(path))
    if not _KEY.fullmatch(key):
        raise KeysError(f"Cannot use {path}: it is not a key. Make keys with scaler_keygen.")
    return key


def read_public_file(path: Path) -> bytes:
    """Raises as ``scheduler_keys``."""
    return _checked(path, read_protected_file(path))


def _checked(path: Path, content: bytes | None) -> bytes:
    if content is None:
        raise KeysError(
            f"Cannot use {path}: it is missing. Copy it from the host where scaler_keygen has made the keys, or make "
            f"new ones if there are none. {VARIABLE} names their directory."
        )
    return content


def _read_if_good(path: Path) -> bytes:
    """Empty for a file that was just put there with errors, so that the keys of other peers stay valid."""
    try:
        content = read_public_file(path)
        parse_public_key(path, content)
        return content
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _PASSING:
            raise
        return b""
