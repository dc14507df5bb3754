cdef class DataLocations:
    cdef readonly dict by_index
    cdef readonly dict by_session
    cdef readonly dict by_store
    cdef dict objects
    cdef public double bytes_per_us

    cdef double moving_us(self, double size)
