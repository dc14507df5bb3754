cdef class Delivery:
    cdef readonly object agent
    cdef readonly object sequence
    cdef int holders

    cpdef hold(self)
    cpdef let_go(self)
