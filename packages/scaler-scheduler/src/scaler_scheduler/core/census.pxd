from libc.stdint cimport int64_t
from scaler_scheduler.core.agent_loads cimport DEPTHS, AgentLoad
from scaler_scheduler.core.run_records cimport RunRecord

cdef class AgentTally:
    cdef int64_t number
    cdef int actors
    cdef int64_t load_us
    cdef int64_t moving_us
    cdef int by_depth[DEPTHS]
    cdef dict taken

    cdef add(self, RunRecord record, int64_t load_us, int64_t moving_us)
    cdef add_unclaimed(self, AgentLoad agent)

cdef class Census:
    cdef readonly list wrong
    cdef public str subject
    cdef bint _corrects
    cdef readonly dict queued
    cdef dict assigned
    cdef dict unfinished

    cdef add_queued(self, RunRecord record, int64_t number)
    cdef add_unfinished(self, RunRecord record, int64_t number)
    cdef AgentTally tally_of(self, agent)
    cpdef bint must_correct(self, str text) except -1
