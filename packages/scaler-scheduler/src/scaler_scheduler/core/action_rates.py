"""The number of actions that each client asks for: each action is written to logs, or concerns all agents."""

from __future__ import annotations

ACTIONS_LIMIT = 20
"""Maximum number of actions of one client within a second."""

TOO_MANY_TEXT = f"a client may ask for {ACTIONS_LIMIT} actions in a second. Try again later."


class ActionRates:
    """The number of actions of each client within the current second."""

    def __init__(self) -> None:
        self._second = 0
        self._counts: dict[bytes, int] = {}

    def permits(self, client: bytes, now: float) -> bool:
        """Count an action. Return whether the client may ask for it."""
        if int(now) != self._second:
            self._second = int(now)
            self._counts.clear()
        self._counts[client] = self._counts.get(client, 0) + 1
        return self._counts[client] <= ACTIONS_LIMIT
