"""A link: the numbered messages between two sessions within one epoch of the scheduler.

Rules. A connection delivers in order, and when it is cut it loses a suffix of what was sent, without a word. So each
side numbers what must arrive (1, 2, 3 ...), keeps it until the other side acknowledges it, and sends the rest again
after a new Hello. A number already received is dropped. A gap cannot happen on one connection; it means that a message
was lost with an earlier one, and only a new Hello mends it. A new epoch starts both sides anew.

Pure: no time, no sockets. Both ends use the same class.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from scaler_protocol.messages import UNNUMBERED, Body, Envelope

ACKNOWLEDGEMENT_DELAY_SECONDS = 0.02
ACKNOWLEDGEMENT_LIMIT = 16
"""An acknowledgement rides on the next message; it travels alone after this time or this many messages received."""


class LinkGap(Exception):
    """A message is missing before the one received: say Hello again."""


class Link:
    def __init__(self, on_acknowledged: Callable[[Envelope], None] | None = None) -> None:
        """``on_acknowledged`` is called once for each numbered envelope that the other side has received, in order."""
        self.sent = 0
        self.received = 0
        self._retained: deque[Envelope] = deque()
        self._reported = 0
        self._owed_since: float | None = None
        self._on_acknowledged = on_acknowledged

    @property
    def in_flight(self) -> int:
        """Numbered messages sent and not yet acknowledged."""
        return len(self._retained)

    def wrap(self, body: Body) -> Envelope:
        """Number ``body`` (unless it travels unnumbered), keep it, and put the current acknowledgement on it."""
        self._report()
        if isinstance(body, UNNUMBERED):
            return Envelope(body, 0, self.received)
        self.sent += 1
        envelope = Envelope(body, self.sent, self.received)
        self._retained.append(envelope)
        return envelope

    def accept(self, envelope: Envelope) -> bool:
        """Take in one received envelope. True: its body is new and must be handled. Raises LinkGap."""
        self.acknowledge(envelope.acknowledged)
        if envelope.sequence == 0:
            return True
        if envelope.sequence <= self.received:
            return False
        if envelope.sequence != self.received + 1:
            raise LinkGap(f"message {envelope.sequence} after {self.received}")
        self.received = envelope.sequence
        return True

    def acknowledge(self, sequence: int) -> None:
        """The other side has received everything up to ``sequence``."""
        retained = self._retained
        while retained and retained[0].sequence <= sequence:
            envelope = retained.popleft()
            if self._on_acknowledged is not None:
                self._on_acknowledged(envelope)

    @property
    def owes_acknowledgement(self) -> bool:
        """Something numbered was received since the last envelope was wrapped."""
        return self.received > self._reported

    def acknowledgement_at(self, now: float, delay_seconds: float = ACKNOWLEDGEMENT_DELAY_SECONDS) -> float | None:
        """When what was received must be acknowledged in a message of its own, if nothing else is sent before; not
        after ``now``: at once. None: nothing is owed."""
        if not self.owes_acknowledgement:
            return None
        if self._owed_since is None:
            self._owed_since = now
        if self.received - self._reported >= ACKNOWLEDGEMENT_LIMIT:
            return now
        return self._owed_since + delay_seconds

    def resume(self, received: int) -> list[Envelope]:
        """After a Hello that resumes: what must be sent again, in order."""
        self.acknowledge(received)
        for envelope in self._retained:
            envelope.acknowledged = self.received
        self._report()
        return list(self._retained)

    def _report(self) -> None:
        self._reported = self.received
        self._owed_since = None

    def check(self) -> None:
        numbers = [envelope.sequence for envelope in self._retained]
        assert numbers == list(range(self.sent - len(numbers) + 1, self.sent + 1)), numbers
