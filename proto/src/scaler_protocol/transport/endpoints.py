"""Addresses as libzmq takes them, and its refusals in plain sentences."""

from __future__ import annotations

import errno
import socket

import zmq

from scaler_protocol.address import Address


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


def connect_error(address: Address, error: zmq.ZMQError) -> OSError:
    return sentence(error.errno, f"Cannot connect to {address}: {error.strerror}.")


def bind_error(address: Address, error: OSError | zmq.ZMQError) -> OSError:
    if error.errno == errno.EADDRINUSE:
        return in_use(address)
    if error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL):
        return sentence(errno.EADDRNOTAVAIL, f"Cannot listen on {address}: this machine has no such address.")
    return sentence(error.errno, f"Cannot listen on {address}: {error.strerror}.")


def in_use(address: Address) -> OSError:
    return sentence(errno.EADDRINUSE, f"Cannot listen on {address}: another process does already.")


def sentence(number: int | None, text: str) -> OSError:
    """An OSError that prints as its sentence, without the number before it."""
    error = OSError(text)
    error.errno = number
    return error
