# cython: language_level=3
"""Messages of the hot path, the envelope of each message, and the effect that sends it. All are cheap to create."""

cimport cython


@cython.freelist(64)
cdef class Envelope:
    def __init__(self, body, sequence=0, acknowledged=0):
        self.body = body
        self.sequence = sequence
        self.acknowledged = acknowledged

    def __eq__(self, other):
        if type(other) is not Envelope:
            return NotImplemented
        return (self.body, self.sequence, self.acknowledged) == (other.body, other.sequence, other.acknowledged)

    def __repr__(self):
        return f"Envelope(body={self.body!r}, sequence={self.sequence}, acknowledged={self.acknowledged})"


@cython.freelist(64)
cdef class Send:
    def __init__(self, peer, envelope):
        self.peer = peer
        self.envelope = envelope

    def __eq__(self, other):
        if type(other) is not Send:
            return NotImplemented
        return (self.peer, self.envelope) == (other.peer, other.envelope)

    def __repr__(self):
        return f"Send(peer={self.peer!r}, envelope={self.envelope!r})"


@cython.freelist(64)
cdef class Tasks:
    def __init__(self, runs, functions=None, serializers=None, resubmitted=False, parent=None):
        self.runs = runs
        self.functions = [] if functions is None else functions
        self.serializers = [] if serializers is None else serializers
        self.resubmitted = resubmitted
        self.parent = parent

    def __eq__(self, other):
        if type(other) is not Tasks:
            return NotImplemented
        return fields_of(self) == fields_of(other)

    def __repr__(self):
        return "Tasks(runs={!r}, functions={!r}, serializers={!r}, resubmitted={!r}, parent={!r})".format(*fields_of(self))


cdef tuple fields_of(Tasks tasks):
    return tasks.runs, tasks.functions, tasks.serializers, tasks.resubmitted, tasks.parent


@cython.freelist(64)
cdef class Results:
    def __init__(self, runs):
        self.runs = runs

    def __eq__(self, other):
        if type(other) is not Results:
            return NotImplemented
        return self.runs == other.runs

    def __repr__(self):
        return f"Results(runs={self.runs!r})"
