cdef class PeerConnection:
    cdef readonly bytes session
    cdef readonly object route
    cdef readonly object link
    cdef public bint is_open
    cdef public double sent_at
    cdef public object withheld
