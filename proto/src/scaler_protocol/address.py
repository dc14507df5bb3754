"""Addresses of peers, as users write them: ``tcp://host:port``, ``ipc://path`` and ``inproc://name``."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

FORMS = "tcp://host:port, ipc://path or inproc://name"
_PATH_LIMIT_BYTES = 107
"""The longest path that the kernel accepts in a socket address."""


@dataclass(frozen=True, slots=True)
class Address:
    """``host`` and ``port`` are set for tcp, ``path`` for ipc (a file or ``@abstract``) and inproc (a name)."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_local(self) -> bool:
        """Only processes of this machine can reach it: loopback tcp, ipc, inproc."""
        return self.scheme != "tcp" or _is_loopback(self.host)

    def __str__(self) -> str:
        if self.scheme != "tcp":
            return f"{self.scheme}://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Raises ValueError with one plain sentence if ``text`` has none of the three forms."""
    scheme, separator, rest = str(text).partition("://")
    if not separator:
        raise ValueError(f"Cannot use {text!r}: it is not an address. Write {FORMS}.")
    if scheme == "tcp":
        return _parse_tcp(text, rest)
    if scheme == "ipc":
        return _parse_ipc(text, rest)
    if scheme == "inproc":
        return _parse_inproc(text, rest)
    raise ValueError(f"Cannot use {text!r}: it has the unknown scheme {scheme!r}. Write {FORMS}.")


def default_monitor_address(address: Address | str) -> str:
    """Return where a scheduler at ``address`` publishes for monitors: tcp://127.0.0.1:2345 gives
    ipc:///tmp/127.0.0.1_2345_monitor."""
    parsed = parse_address(address) if isinstance(address, str) else address
    if parsed.scheme == "tcp":
        host = parsed.host.replace("*", "any").replace(":", "_").replace("/", "_").replace("%", "_")
        return f"ipc:///tmp/{host}_{parsed.port}_monitor"
    if parsed.scheme == "ipc":
        return f"ipc://{parsed.path}_monitor"
    return f"ipc:///tmp/inproc_{parsed.path.replace('/', '_')}_monitor"


def parse_watched_address(text: str) -> Address:
    """A monitor address that a program of its own can watch. Raises ValueError with one plain sentence."""
    parsed = parse_address(text)
    if parsed.scheme == "inproc":
        raise ValueError(
            f"Cannot watch {text!r}: it cannot be reached from another process. Use tcp://host:port or ipc://path."
        )
    return parsed


def _parse_tcp(text: str, rest: str) -> Address:
    host, separator, port = rest.rpartition(":")
    if not separator or not host:
        raise ValueError(f"Cannot use {text!r}: it has no port. Write tcp://host:port.")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError(f"Cannot use {text!r}: it has the port {port!r}. Use a number from 0 to 65535.")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"Cannot use {text!r}: it has an IPv6 host without brackets. Write tcp://[{host}]:{port}.")
    if not host or any(character.isspace() or character in "/?#@[]" for character in host):
        raise ValueError(f"Cannot use {text!r}: {host!r} is not a valid host name. Write tcp://host:port.")
    return Address("tcp", host=host, port=int(port))


def _parse_ipc(text: str, path: str) -> Address:
    if not path or "\0" in path:
        raise ValueError(f"Cannot use {text!r}: it has no path. Write ipc://path.")
    if len(path.encode("utf-8", "surrogateescape")) > _PATH_LIMIT_BYTES:
        raise ValueError(
            f"Cannot use {text!r}: its path is too long. Use a path of at most {_PATH_LIMIT_BYTES} bytes for a socket."
        )
    return Address("ipc", path=path)


def _parse_inproc(text: str, name: str) -> Address:
    if not name:
        raise ValueError(f"Cannot use {text!r}: it has no name. Write inproc://name.")
    return Address("inproc", path=name)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
