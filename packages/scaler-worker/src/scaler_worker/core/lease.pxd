cdef class Lease:
    cdef bint _is_heard
    cdef double _turned_at
    cdef readonly object proof_wanted_since
    cdef readonly double until

    cpdef bint turn(self, double now)
    cpdef object heard(self, double now)
