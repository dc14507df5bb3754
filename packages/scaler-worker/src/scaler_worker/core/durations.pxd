cdef class Durations:
    cdef dict _seconds

    cdef double known(self, object function) except? -2
