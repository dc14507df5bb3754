"""Addresses that were watched before, newest first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

LIMIT = 12


@dataclass(frozen=True, slots=True)
class RecentAddress:
    """The address to connect to, and the folder of key files for it (empty: as the environment says)."""

    address: str
    keys: str = ""


def with_newest(places: Iterable[RecentAddress], newest: RecentAddress) -> list[RecentAddress]:
    """``newest`` first, each address once, at most ``LIMIT``."""
    others = [place for place in places if place.address != newest.address]
    return [newest, *others][:LIMIT]


def without(places: Iterable[RecentAddress], address: str) -> list[RecentAddress]:
    return [place for place in places if place.address != address]


def to_text(places: Iterable[RecentAddress]) -> str:
    return json.dumps([asdict(place) for place in places])


def from_text(text: str) -> list[RecentAddress]:
    """Read the output of ``to_text``. Any other text has no addresses: settings are files that people edit."""
    try:
        return [RecentAddress(str(each["address"]), str(each.get("keys", ""))) for each in json.loads(text)][:LIMIT]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
