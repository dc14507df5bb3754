from libc.stdint cimport int64_t

from scaler_worker.core.durations cimport Durations
from scaler_worker.core.outbox cimport Outbox
from scaler_worker.core.worker_process cimport WorkerProcess
from scaler_worker.core.queue cimport TaskQueue
from scaler_worker.core.roster cimport Roster


cdef class Prefetcher:
    cdef Roster _roster
    cdef TaskQueue _queue
    cdef Durations _durations
    cdef object _nodes
    cdef object _contents
    cdef Outbox _outbox
    cdef object _estimate
    cdef public bint has_timed
    cdef readonly list broken
    cdef public object dedicate

    cpdef object fill(self)
    cpdef object fill_idle(self)
    cpdef double work_of(self, WorkerProcess process) except? -1
    cdef bint may_start(self) except -1
    cdef object fill_busy(self)
    cpdef bint is_short(self, WorkerProcess process) except -1
    cpdef object make_actor(self, WorkerProcess process, str environment=*)
    cpdef object dispatch(self, WorkerProcess process, int64_t depth, int64_t sharers, str environment=*)
    cdef int64_t batch(self, object head, double estimate, int64_t share, double budget) except -1
    cpdef object give(self, WorkerProcess process, list runs)
