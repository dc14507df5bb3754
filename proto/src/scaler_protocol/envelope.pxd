cdef class Envelope:
    cdef public object body
    cdef public object sequence
    cdef public object acknowledged
    cdef unsigned long long size_bytes  # of a message that its link retains, once it is measured

cdef class Send:
    cdef public object peer
    cdef public object envelope

cdef class Tasks:
    cdef public list runs
    cdef public list functions
    cdef public list serializers
    cdef public bint resubmitted
    cdef public object parent

cdef class Results:
    cdef public list runs

cdef inline Envelope envelope_of(body, sequence, acknowledged):
    """Create an Envelope without a Python call."""
    cdef Envelope envelope = Envelope.__new__(Envelope)
    envelope.body = body
    envelope.sequence = sequence
    envelope.acknowledged = acknowledged
    return envelope
