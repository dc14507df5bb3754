"""The number of connections that an address may open without authenticating: a token bucket for each address."""

from __future__ import annotations

from dataclasses import dataclass

BURST = 1024
"""Many peers of one host may connect at once, for example after a restart."""

CONNECTIONS_PER_SECOND = 250.0

_ADDRESS_LIMIT = 4096
"""Addresses that are remembered. Beyond it, the one that opened no connection for the longest time is forgotten."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float

    def fill(self, now: float) -> None:
        self.tokens = min(float(BURST), self.tokens + (now - self.filled_at) * CONNECTIONS_PER_SECOND)
        self.filled_at = now


class ConnectionRate:
    """Counts connections as they open. An address whose tokens are used up is over its rate until it has some again."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}  # the address that opened a connection last is the last one
        self._over: dict[str, float] = {}  # until when

    def add(self, address: str, now: float) -> None:
        """A connection from ``address`` has opened."""
        bucket = self._buckets.pop(address, None) or _Bucket(float(BURST), now)
        self._buckets[address] = bucket
        bucket.fill(now)
        bucket.tokens -= 1
        if bucket.tokens < 0:
            self._over[address] = now - bucket.tokens / CONNECTIONS_PER_SECOND
        if len(self._buckets) > _ADDRESS_LIMIT:
            self._buckets.pop(next(iter(self._buckets)))

    def give_back(self, address: str) -> None:
        """A connection from ``address`` has authenticated, so it does not count."""
        bucket = self._buckets.get(address)
        if bucket is not None:
            bucket.tokens = min(float(BURST), bucket.tokens + 1)
            if bucket.tokens >= 0:
                self._over.pop(address, None)

    def over(self, now: float) -> frozenset[str]:
        """Return the addresses that are over their rate."""
        for address in [each for each, until in self._over.items() if now >= until]:
            del self._over[address]
        return frozenset(self._over)

    def next_deadline(self) -> float | None:
        """Return when the next address gets a token, or None."""
        return min(self._over.values(), default=None)
