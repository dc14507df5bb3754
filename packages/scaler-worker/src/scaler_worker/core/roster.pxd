from libc.stdint cimport int64_t

from scaler_worker.core.worker_process cimport WorkerProcess


cdef class Roster:
    cdef readonly int64_t slots
    cdef readonly dict processes
    cdef readonly dict idle
    cdef readonly dict busy
    cdef readonly dict full
    cdef readonly dict blocked
    cdef readonly dict awaiting_locks
    cdef readonly dict short_of_work
    cdef readonly dict worn
    cdef readonly dict in_environments
    cdef readonly int64_t deepest_blocked
    cdef readonly int64_t blocked_actors

    cpdef object sort(self, WorkerProcess process)
    cpdef object settle(self, WorkerProcess process)
    cdef object note_blocked(self)
    cdef list misplaced(self, WorkerProcess process)
    cdef bint has_capacity(self) noexcept
    cdef bint stuck(self) noexcept
    cpdef int64_t depth_needed(self, int64_t more) noexcept
