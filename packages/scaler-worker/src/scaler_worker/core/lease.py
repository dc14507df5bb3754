"""Whether this agent may start tasks: only while the scheduler was heard lately."""

from __future__ import annotations

LEASE_SECONDS = 1.0
STALL_SECONDS = 0.8
"""An agent that did nothing for so long was stopped or starved: what it reads now may be old."""


class Lease:
    """After a stall nothing counts as heard until the scheduler echoes something sent since."""

    def __init__(self, now: float) -> None:
        self._heard_at: float | None = None
        self._turned_at = now
        self.proof_wanted_since: float | None = None
        self.until = 0.0
        """Nothing is started after this."""

    def turn(self, now: float) -> bool:
        """The agent is at work. True: it was not for a while, so ask for proof."""
        stalled = self._heard_at is not None and now - self._turned_at > STALL_SECONDS
        self._turned_at = now
        if stalled:
            self.proof_wanted_since = now
        return stalled

    def heard(self, now: float) -> None:
        if self.proof_wanted_since is None:
            self._heard_at = now
            self.until = now + LEASE_SECONDS

    def proved(self, sent_at: float, now: float) -> None:
        """The scheduler answered something that was sent at ``sent_at``."""
        if self.proof_wanted_since is not None and sent_at >= self.proof_wanted_since:
            self.proof_wanted_since = None
        self.heard(now)

    def end(self) -> None:
        self._heard_at = None
        self.proof_wanted_since = None
        self.until = 0.0
