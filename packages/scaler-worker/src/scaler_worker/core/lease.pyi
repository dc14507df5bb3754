"""The permission of this agent to start tasks: only while the scheduler was heard lately (contract of lease.pyx)."""

LEASE_SECONDS: float
STALL_SECONDS: float
"""An agent that did nothing for so long was stopped or starved: what it reads now may be old."""

class Lease:
    """After a stall nothing counts as heard until the scheduler echoes something sent since."""

    def __init__(self, now: float) -> None: ...
    @property
    def proof_wanted_since(self) -> float | None: ...
    @property
    def until(self) -> float:
        """Nothing is started after this."""

    def turn(self, now: float) -> bool:
        """The agent is at work. True: it was not for a while, so ask for proof."""

    def heard(self, now: float) -> None: ...
    def proved(self, sent_at: float, now: float) -> None:
        """The scheduler answered something that was sent at ``sent_at``."""

    def end(self) -> None: ...
