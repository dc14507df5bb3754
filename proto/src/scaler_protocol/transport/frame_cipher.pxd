from libc.stdint cimport uint8_t, uint64_t


cdef class FrameCipher:
    cdef object seal_box
    cdef object open_box
    cdef object box_error
    cdef bytes key
    cdef bytes sent_prefix
    cdef bytes received_prefix
    cdef uint64_t sent
    cdef uint64_t received

    cdef bytes seal(self, uint8_t flags, object frame)
    cdef bytes open(self, bytes sealed)
