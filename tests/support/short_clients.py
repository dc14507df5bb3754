"""Clients that leave before anything that they asked for can have happened."""

from __future__ import annotations

from scaler import Client


class Resting:
    """An actor that nobody calls."""


def come_and_go(address: str, count: int) -> None:
    """Connect ``count`` clients one after the other; each starts an actor and leaves."""
    for _ in range(count):
        with Client(address) as client:
            client.actor(Resting)
