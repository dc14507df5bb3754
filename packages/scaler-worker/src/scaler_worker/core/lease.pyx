# cython: language_level=3
"""The permission of this agent to start tasks: only while the scheduler was heard lately. See lease.pyi for the contract."""

LEASE_SECONDS = 1.0
STALL_SECONDS = 0.8

cdef double _lease_seconds = LEASE_SECONDS
cdef double _stall_seconds = STALL_SECONDS


cdef class Lease:
    def __init__(self, double now):
        self._turned_at = now

    cpdef bint turn(self, double now):
        cdef bint stalled = self._is_heard and now - self._turned_at > _stall_seconds
        self._turned_at = now
        if stalled:
            self.proof_wanted_since = now
        return stalled

    cpdef object heard(self, double now):
        if self.proof_wanted_since is None:
            self._is_heard = True
            self.until = now + _lease_seconds

    def proved(self, double sent_at, double now):
        if self.proof_wanted_since is not None and sent_at >= <double> self.proof_wanted_since:
            self.proof_wanted_since = None
        self.heard(now)

    def end(self):
        self._is_heard = False
        self.proof_wanted_since = None
        self.until = 0.0
