from libc.stdint cimport int64_t
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.states cimport STATUSES

cdef class Totals:
    cdef int64_t outcomes[STATUSES]
    cdef public int64_t unfinished
    cdef readonly Recorder events
