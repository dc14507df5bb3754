cdef class Delivery:
    cdef readonly object agent
    cdef readonly object sequence
    cdef int holders

    cpdef hold(self)
    cpdef release(self)
