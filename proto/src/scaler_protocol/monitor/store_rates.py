"""The rates at which object stores spill, send and receive, and of the traffic between hosts, from totals over the last
seconds. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from scaler_protocol.monitor.bounds import rate
from scaler_protocol.monitor.messages import HostStoreStatus, HostTraffic

SPAN_SECONDS = 5.0
"""Agents tell of their stores now and then: over a shorter time a rate would jump."""


class StoreRate(NamedTuple):
    """Bytes per second."""

    spilled: float = 0.0
    sent: float = 0.0
    received: float = 0.0


class StoreRates:
    def __init__(self) -> None:
        self._seen: deque[tuple[float, Sequence[HostStoreStatus]]] = deque()

    def add(self, time: float, stores: Sequence[HostStoreStatus]) -> list[StoreRate]:
        """A rate for each of ``stores``; 0 for all until they have been seen for a while."""
        if self._seen and [each.host for each in self._seen[-1][1]] != [each.host for each in stores]:
            self._seen.clear()
        self._seen.append((time, stores))
        while len(self._seen) > 2 and self._seen[1][0] <= time - SPAN_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        seconds = time - since
        return [_rate(old, new, seconds) for old, new in zip(before, stores, strict=True)]


class TrafficRates:
    """Bytes per second by source and target."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[tuple[str, str], int]]] = deque()

    def add(self, time: float, traffic: Sequence[HostTraffic]) -> dict[tuple[str, str], float]:
        """A rate for each pair of hosts; 0 until it has been seen for a while, or when its store has started again."""
        totals = {(each.source, each.target): each.received_bytes for each in traffic}
        self._seen.append((time, totals))
        while len(self._seen) > 2 and self._seen[1][0] <= time - SPAN_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return {pair: rate(max(0, total - before.get(pair, total)), time - since) for pair, total in totals.items()}


def _rate(before: HostStoreStatus, after: HostStoreStatus, seconds: float) -> StoreRate:
    """A store that was started again counts from 0."""
    totals = (
        (before.spilled_bytes, after.spilled_bytes),
        (before.sent_bytes, after.sent_bytes),
        (before.received_bytes, after.received_bytes),
    )
    return StoreRate(*(rate(max(0, new - old), seconds) for old, new in totals))
