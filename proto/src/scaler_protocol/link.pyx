# cython: language_level=3
"""A link: the numbered messages between two sessions within one epoch of the scheduler.

Rules. A connection delivers in order, and when it is cut it loses a suffix of what was sent, without a word. So each
side numbers what must arrive (1, 2, 3 ...), keeps it until the other side acknowledges it, and sends the rest again
after a new Hello. A number already received is dropped. A gap cannot happen on one connection; it means that a message
was lost with an earlier one, and only a new Hello repairs the link. In a new epoch, both sides start from the
beginning.

Pure: no time, no sockets. Both ends use the same class.
"""

from collections import deque
from dataclasses import fields, is_dataclass

from scaler_protocol.envelope cimport Envelope, Results, Tasks, envelope_of

from scaler_protocol.messages import UNNUMBERED as _UNNUMBERED

ACKNOWLEDGEMENT_DELAY_SECONDS = 0.02
ACKNOWLEDGEMENT_LIMIT = 16

MESSAGE_BYTES = 256
NUMBER_BYTES = 32

cdef frozenset _unnumbered = frozenset(_UNNUMBERED)
cdef double _delay_seconds = ACKNOWLEDGEMENT_DELAY_SECONDS
cdef unsigned long long _limit = ACKNOWLEDGEMENT_LIMIT


class LinkGap(Exception):
    """A message is missing before the one received: say Hello again."""


cdef class Link:
    cdef readonly unsigned long long sent
    cdef readonly unsigned long long received
    cdef unsigned long long _reported
    cdef unsigned long long _first  # sequence of the first envelope retained
    cdef object _retained  # a deque of Envelope
    cdef unsigned long long _measured_bytes
    cdef object _owed_since
    cdef object _on_acknowledged

    def __init__(self, on_acknowledged=None):
        self._first = 1
        self._retained = deque()
        self._on_acknowledged = on_acknowledged

    @property
    def in_flight(self):
        return self.sent + 1 - self._first

    @property
    def retained_bytes(self):
        cdef Envelope envelope
        for envelope in reversed(self._retained):
            if envelope.size_bytes:
                break
            envelope.size_bytes = <unsigned long long> (MESSAGE_BYTES + content_bytes(envelope.body))
            self._measured_bytes += envelope.size_bytes
        return self._measured_bytes

    def wrap(self, body):
        self.report()
        if type(body) in _unnumbered:
            return envelope_of(body, 0, self.received)
        envelope = envelope_of(body, self.sent + 1, self.received)
        self._retained.append(envelope)
        self.sent += 1  # last: what raises for lack of memory has changed nothing
        return envelope

    def accept(self, Envelope envelope not None):
        cdef unsigned long long sequence = envelope.sequence
        self.release(envelope.acknowledged)
        if sequence == 0:
            return True
        if sequence <= self.received:
            return False
        if sequence != self.received + 1:
            raise LinkGap(f"message {sequence} after {self.received}")
        self.received = sequence
        return True

    def acknowledge(self, sequence):
        self.release(sequence)

    cdef int release(self, unsigned long long sequence) except -1:
        """``_first`` moves before the callback, which may ask what is in flight."""
        cdef Envelope envelope
        while self._first <= sequence and self._first <= self.sent:
            envelope = self._retained.popleft()
            self._first += 1
            self._measured_bytes -= envelope.size_bytes
            if self._on_acknowledged is not None:
                self._on_acknowledged(envelope)
        return 0

    @property
    def owes_acknowledgement(self):
        return self.received > self._reported

    def acknowledgement_at(self, now, delay_seconds=_delay_seconds):
        if self.received <= self._reported:
            return None
        if self._owed_since is None:
            self._owed_since = now
        if self.received - self._reported >= _limit:
            return now
        return self._owed_since + delay_seconds

    def resume(self, received):
        cdef Envelope envelope
        self.release(received)
        for envelope in self._retained:
            envelope.acknowledged = self.received
        self.report()
        return list(self._retained)

    cdef void report(self) noexcept:
        self._reported = self.received
        self._owed_since = None

    def check(self):
        if not self._retained:  # as most links of a large cluster
            assert self._first > self.sent and not self._measured_bytes, (self._first, self.sent, self._measured_bytes)
            return
        numbers = [envelope.sequence for envelope in self._retained]
        assert numbers == list(range(self._first, self.sent + 1)), numbers
        assert self._measured_bytes == sum([(<Envelope> envelope).size_bytes for envelope in self._retained])


def content_bytes(value):
    kind = type(value)
    if kind is Tasks:
        definitions = [*value.functions, *value.serializers]
        return sum(map(run_bytes, value.runs)) + sum(map(content_bytes, definitions))
    if kind is Results:
        return sum(map(run_bytes, value.runs))
    if isinstance(value, (bytes, str, memoryview)):
        return len(value)
    if isinstance(value, (tuple, list)):
        return sum([NUMBER_BYTES + content_bytes(item) for item in value])
    if is_dataclass(value):
        return sum([content_bytes(getattr(value, field.name)) for field in fields(value)])
    return 0


def run_bytes(run):
    return run.payload_bytes + run.count * NUMBER_BYTES
