cdef class Durations:
    cdef dict _seconds

    cdef double known(self, object function) except? -2
    cpdef object add(self, function, long count, double total_seconds)
