"""The profiles that agents take for clients."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RunningProfile:
    """``number`` is that which agents know, ``client_number`` that which the client gave. ``awaited``: the agents that
    are to send their samples; None: it has not been ended."""

    number: int
    client: bytes
    client_number: int
    session: bytes
    interval_us: int
    asked: set[bytes] = field(default_factory=set)
    renew_at: float = 0.0
    awaited: set[bytes] | None = None
    deadline: float = 0.0


class ProfileTable:
    def __init__(self) -> None:
        self.running: dict[int, RunningProfile] = {}
        self.last_number = 0

    def find(self, client: bytes, number: int) -> RunningProfile | None:
        """Return the profile that has not been ended to which this client gave the number."""
        for each in self.running.values():
            if each.client == client and each.client_number == number and each.awaited is None:
                return each
        return None

    def count_of(self, client: bytes) -> int:
        """Return the number of profiles of this client, with those whose samples are awaited."""
        return sum(each.client == client for each in self.running.values())
