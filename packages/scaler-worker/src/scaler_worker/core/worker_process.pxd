from libc.stdint cimport int64_t, uint64_t

cdef enum:
    ASKED = 0
    FORKED = 1
    READY = 2
    ENDING = 3


cdef class WorkerProcess:
    cdef readonly int64_t number
    cdef public object slot
    cdef public int64_t place
    cdef public str name
    cdef readonly object board
    cdef readonly object pid
    cdef int state
    cdef public list dispatched
    cdef public uint64_t next_sequence
    cdef readonly set functions
    cdef readonly set objects
    cdef public dict ending
    cdef public object blocked_sequence
    cdef public int64_t blocked_depth
    cdef public bint waits_for_lock
    cdef public bint suspended
    cdef public double idle_since
    cdef public object polled_position
    cdef public object actor
    cdef public bint is_dedicated
    cdef public uint64_t task_limit
    cdef public bint is_worn
    cdef public str environment

    cdef bint is_available(self) noexcept
    cpdef uint64_t unfinished(self) except? 0
    cdef int forget_finished(self) except -1
