"""The guard: which requests come from a page of this monitor.

A web page from elsewhere must not be able to make its visitor's browser look for it, neither through a name that it
points at this machine (DNS rebinding: such a request carries that name as its Host) nor through a websocket from its
own origin. The browser's cookie alone would not stop it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit


class Guard:
    """Lets in addresses in numbers, ``localhost`` and the names that it was given."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {"localhost", *(_plain(name) for name in names)} - {""}

    def allows_host(self, host: str) -> bool:
        """Return whether a request with this Host header may be answered. Any port: it may come through a tunnel."""
        name = _name_of(f"//{host}")
        return name is not None and (name in self._names or _is_address(name))

    def allows_origin(self, origin: str | None, host: str) -> bool:
        """Return whether a page of this origin may open a websocket at this host: only this monitor's own page.
        Browsers leave the usual port out of both, so that they are compared as they are."""
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
