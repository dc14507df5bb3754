"""Addresses as libzmq and the kernel take them, and their refusals in plain sentences."""

from __future__ import annotations

import errno
import socket
import struct
import sys

import zmq

from scaler_protocol.address import Address

_SIOCGIFADDR = 0x8915


def to_connect(address: Address) -> str:
    """Some machines have localhost as ::1, some as 127.0.0.1: both ends must mean the same."""
    return f"tcp://127.0.0.1:{address.port}" if address.host == "localhost" else str(address)


def to_bind(address: Address) -> str:
    """libzmq binds numbers and names of network interfaces; a host name is looked up here."""
    if address.scheme != "tcp" or address.host in ("localhost", "*") or ":" in address.host:
        return to_connect(address)
    try:
        return f"tcp://{socket.gethostbyname(address.host)}:{address.port}"
    except OSError:
        return str(address)


def bound_socket(address: Address) -> socket.socket:
    """A stream socket bound to a tcp or ipc address, which does not listen yet. Raises OSError."""
    if address.scheme == "ipc":
        return _bound(socket.AF_UNIX, unix_name(address))
    if ":" in address.host:
        found = socket.getaddrinfo(address.host, address.port, socket.AF_INET6, socket.SOCK_STREAM)
        return _bound(socket.AF_INET6, found[0][4])
    return _bound(socket.AF_INET, (_ipv4_of(address.host), address.port))


def bound_address(address: Address, bound: socket.socket) -> Address:
    """Return the address with the port that the socket was given."""
    if address.scheme != "tcp" or address.port:
        return address
    return Address("tcp", address.host, bound.getsockname()[1])


def unix_name(address: Address) -> str:
    """Return the name of the unix socket of an ipc address, as the kernel takes it."""
    return "\0" + address.path[1:] if address.path.startswith("@") else address.path


def _bound(family: int, name: object) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind(name)  # type: ignore[arg-type]
    except BaseException:
        made.close()
        raise
    return made


def _ipv4_of(host: str) -> str:
    """Return the IPv4 address of a number, a name, a network interface, or ``*``."""
    if host in ("*", "localhost"):
        return "0.0.0.0" if host == "*" else "127.0.0.1"
    try:
        return socket.gethostbyname(host)
    except OSError:
        return _ipv4_of_interface(host)


def _ipv4_of_interface(name: str) -> str:
    if sys.platform != "linux":
        raise OSError(errno.EADDRNOTAVAIL, "no such address")
    import fcntl

    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        try:
            answer = fcntl.ioctl(asker.fileno(), _SIOCGIFADDR, request)
        except OSError:
            raise OSError(errno.EADDRNOTAVAIL, "no such address") from None
    return socket.inet_ntoa(answer[20:24])


def connect_error(address: Address, error: zmq.ZMQError) -> OSError:
    return sentence(error.errno, f"Cannot connect to {address}: {error.strerror}.")


def bind_error(address: Address, error: OSError | zmq.ZMQError) -> OSError:
    if error.errno == errno.EADDRINUSE:
        return in_use(address)
    if error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL):
        return sentence(errno.EADDRNOTAVAIL, f"Cannot listen on {address}: this machine has no such address.")
    if error.strerror is None and isinstance(error, OSError):
        return error  # a sentence already
    return sentence(error.errno, f"Cannot listen on {address}: {error.strerror}.")


def in_use(address: Address) -> OSError:
    text = f"Cannot listen on {address}: another process already listens there. Stop it, or give another address."
    return sentence(errno.EADDRINUSE, text)


def sentence(number: int | None, text: str) -> OSError:
    """An OSError that prints as its sentence, without the number before it."""
    error = OSError(text)
    error.errno = number
    return error
