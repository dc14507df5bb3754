"""Checks that a request comes from a page of this monitor.

A foreign web page must not be able to use its visitor's browser to watch the cluster, neither through a host name that
it directs to this machine (DNS rebinding: the Host header of such a request has that name), nor through a websocket
from its own origin. The cookie alone would not prevent this, because the browser sends it with such requests.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit


class OriginCheck:
    """Accepts numeric addresses, ``localhost`` and the host names that it was given."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {"localhost", *(_plain(name) for name in names)} - {""}

    def allows_host(self, host: str) -> bool:
        """Return whether a request with this Host header may be answered. The port does not
        matter, because the request may come through a tunnel."""
        name = _name_of(f"//{host}")
        return name is not None and (name in self._names or _is_address(name))

    def allows_origin(self, origin: str | None, host: str) -> bool:
        """Return whether a page of this origin may open a websocket at this host. Only this monitor's own page may.
        Browsers omit a default port in both headers, so they are compared without changes."""
        parts = _split(origin or "")
        return parts is not None and parts.netloc.lower() == host.lower() and self.allows_host(host)


def _name_of(url: str) -> str | None:
    parts = _split(url)
    return _plain(parts.hostname) if parts is not None and parts.hostname else None


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.port is None or parts.port else None
    except ValueError:
        return None


def _plain(name: str) -> str:
    return name.rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False
