"""A link: the numbered messages between two sessions within one epoch of the scheduler.

Rules. A connection delivers in order, and when it is cut it loses a suffix of what was sent, without a word. So each
side numbers what must arrive (1, 2, 3 ...), keeps it until the other side acknowledges it, and sends the rest again
after a new Hello. A number already received is dropped. A gap cannot happen on one connection; it means that a message
was lost with an earlier one, and only a new Hello repairs the link. In a new epoch, both sides start from the
beginning.

Pure: no time, no sockets. Both ends use the same class.
"""

from collections.abc import Callable

from scaler_protocol.messages import Body, Envelope

ACKNOWLEDGEMENT_DELAY_SECONDS: float
ACKNOWLEDGEMENT_LIMIT: int
"""An acknowledgement rides on the next message; it travels alone after this time or this many messages received."""

def content_bytes(value: object) -> int:
    """The memory of the texts, bytes and items of a body, or of a value in it, about."""

class LinkGap(Exception):
    """A message is missing before the one received: say Hello again."""

class Link:
    def __init__(self, on_acknowledged: Callable[[Envelope], None] | None = None) -> None:
        """``on_acknowledged`` is called once for each numbered envelope that the other side has received, in order."""

    @property
    def sent(self) -> int:
        """The highest sequence given out."""

    @property
    def received(self) -> int:
        """The highest sequence received from the other side."""

    @property
    def in_flight(self) -> int:
        """Numbered messages sent and not yet acknowledged."""

    @property
    def retained_bytes(self) -> int:
        """The memory of these messages, about. Each is measured once, when this is asked for the first time after it
        was sent."""

    def wrap(self, body: Body) -> Envelope:
        """Number ``body`` (unless it travels unnumbered), keep it, and put the current acknowledgement on it."""

    def accept(self, envelope: Envelope) -> bool:
        """Take in one received envelope. True: its body is new and must be handled. Raises LinkGap."""

    def acknowledge(self, sequence: int) -> None:
        """The other side has received everything up to ``sequence``."""

    @property
    def owes_acknowledgement(self) -> bool:
        """Something numbered was received since the last envelope was wrapped."""

    def acknowledgement_at(self, now: float, delay_seconds: float = ...) -> float | None:
        """Return when a message of its own must acknowledge what was received, if nothing else is sent before; not
        after ``now``: at once. None: nothing is owed."""

    def resume(self, received: int) -> list[Envelope]:
        """After a Hello that resumes: what must be sent again, in order."""

    def check(self) -> None:
        """Assert that exactly the unacknowledged envelopes are retained."""
