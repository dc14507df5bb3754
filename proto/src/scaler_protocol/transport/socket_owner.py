"""The owner of a socket of this machine, according to the kernel: of a listening port, or of the other end.

For unix sockets it is in their credentials. For tcp the kernel is asked by netlink (sock_diag), which answers about one
socket in some microseconds, or else by /proc/net/tcp, which lists them all. Only what is in this network namespace can
be seen.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import struct
import sys
from collections.abc import Iterator

Endpoint = tuple[str, int]

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NLMSG_ERROR = 2
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_HEADER = struct.Struct("=IHHII")  # size, type, flags, sequence, process
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_ANSWER_FIXED_BYTES = _HEADER.size + 4 + 48  # up to the sockets' addresses
_ANSWER_REST = struct.Struct("=IIIII")  # expires, two queues, user, inode
_CREDENTIALS = struct.Struct("iII")  # process, user, group
_LISTENING = 0x0A
_WILDCARDS = ("00000000", "0" * 32)
_WHOLE_MAP = "0 0 4294967295"


def owner_of_listener(host: str, port: int) -> int | None:
    """The user of the socket that a connection to this address reaches; None: it cannot be seen. Raises
    ConnectionRefusedError when nothing listens there."""
    owner = _ask((host, port), ("::" if ":" in host else "0.0.0.0", 0))
    if owner is None:
        owner = _look_for_listener(host, port)
    return _seen(owner)


class PeerOwners:
    """Tells whose the other end of a tcp connection of this machine is. Keeps a descriptor."""

    def __init__(self) -> None:
        self._netlink = _netlink()

    def owner(self, connected: socket.socket, peer: Endpoint) -> int | None:
        """None: it cannot be seen, or is closed already."""
        try:
            return _seen(_ask(peer, connected.getsockname()[:2], self._netlink))
        except OSError:
            return None

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()


def credentials_of(connected: socket.socket) -> tuple[int, int]:
    """The process at the other end of a unix socket, or 0 when it cannot be seen from here, and its user. At the end
    that connected: the process that listens there."""
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(data)
    return process, user


def is_trusted(owner: int | None) -> bool:
    """Return whether messages of this user may be read: our own user, root, and a user that cannot be seen, whose
    process has to prove what it knows."""
    return owner is None or owner in (os.geteuid(), 0)


def is_foreign(user: int) -> bool:
    """Like ``is_trusted``, for a user that the kernel named."""
    return not is_trusted(_seen(user))


# ---- netlink ---------------------------------------------------------------------------------------------------------


def _netlink() -> socket.socket | None:
    if sys.platform != "linux":
        return None
    try:
        return socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    except OSError:
        return None


def _ask(local: Endpoint, remote: Endpoint, netlink: socket.socket | None = None) -> int | None:
    """The user of the socket that packets from ``remote`` to ``local`` reach; None: the kernel does not say. Raises
    ConnectionRefusedError when there is none."""
    used = netlink or _netlink()
    if used is None:
        return None
    try:
        used.send(_request(local, remote))
        return _answer(used.recv(4096, socket.MSG_DONTWAIT))  # it is there when the request has left
    except ConnectionRefusedError:
        raise
    except OSError:
        return None
    finally:
        if netlink is None:
            used.close()


def _request(local: Endpoint, remote: Endpoint) -> bytes:
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    hosts = (host.partition("%")[0] for host in (local[0], remote[0]))
    addresses = b"".join(socket.inet_pton(family, host).ljust(16, b"\0") for host in hosts)
    ports = struct.pack("!HH", local[1], remote[1])
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
    body += ports + addresses + struct.pack("=I", 0) + _NO_COOKIE
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body


def _answer(data: bytes) -> int | None:
    _, kind, _, _, _ = _HEADER.unpack_from(data)
    if kind == _NLMSG_ERROR:
        number = -struct.unpack_from("=i", data, _HEADER.size)[0]
        if number == errno.ENOENT:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        return None
    if kind != _SOCK_DIAG_BY_FAMILY or len(data) < _ANSWER_FIXED_BYTES + _ANSWER_REST.size:
        return None
    user: int = _ANSWER_REST.unpack_from(data, _ANSWER_FIXED_BYTES)[3]
    return user


# ---- /proc -----------------------------------------------------------------------------------------------------------


def _look_for_listener(host: str, port: int) -> int | None:
    """Find the listener that is bound to this very address, or else to all addresses. Raises ConnectionRefusedError."""
    wanted = (_as_in_proc(host), *([] if ":" in host else [_as_in_proc(f"::ffff:{host}")]), *_WILDCARDS)
    found: dict[str, int] = {}
    try:
        for address, state, user in _sockets():
            place, _, number = address.partition(":")
            if state == _LISTENING and int(number, 16) == port:
                found[place] = user
    except (OSError, ValueError, IndexError):
        return None
    users = [found[place] for place in wanted if place in found]
    if not users:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    return users[0]


def _sockets() -> Iterator[tuple[str, int, int]]:
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as lines:
                next(lines)
                for line in lines:
                    fields = line.split()
                    yield fields[1], int(fields[3], 16), int(fields[7])
        except FileNotFoundError:  # no IPv6 here
            if table == "tcp":
                raise


def _as_in_proc(host: str) -> str:
    """Words of four bytes in the order of this machine, in hexadecimal."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host.partition("%")[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words)


# ---- user namespaces -------------------------------------------------------------------------------------------------


def _seen(user: int | None) -> int | None:
    """None for the number that stands for every user whom this user namespace does not know."""
    return None if user is not None and user == _overflow_user() and not _sees_all_users() else user


@functools.cache
def _overflow_user() -> int:
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 65534


@functools.cache
def _sees_all_users() -> bool:
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return " ".join(file.read().split()) == _WHOLE_MAP
    except OSError:
        return True
