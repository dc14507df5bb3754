from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.states cimport STATUSES

cdef class Recorder:
    cdef public double now
    cdef readonly bint is_on
    cdef readonly uint32_t recording
    cdef object ring
    cdef double clock_offset
    cdef uint32_t functions
    cdef uint32_t tables
    cdef uint64_t recorded_before
    cdef uint64_t dropped_before
    cdef list ends
    cdef uint32_t ends_session
    cdef dict places  # worker and microseconds of what ran at the agent that is being removed; None: no agent is
    cdef uint32_t lost_agent
    cdef uint32_t lost_age_us
    cdef double failures_since
    cdef int failures[STATUSES]
    cdef uint64_t printed_bytes  # in this second
    cdef uint64_t printed_left_out
    cdef uint64_t logged_characters  # in this second
    cdef object last_options
    cdef uint32_t last_options_number
    cdef uint32_t options_count
    cdef double options_room  # bytes of names of new options that may be written
    cdef double options_at  # when that was
    cdef dict options  # their numbers, by what monitors show of them; the oldest first
    cdef readonly uint64_t named_bytes

    cdef uint64_t time(self) noexcept
    cdef name(self, naming, number, value)
    cdef void begin_second(self) noexcept
    cdef write_failure(
        self, session, task, attempt, status, payload, agent=*, function=*, worker=*
    )
    cdef uint32_t new_table(self) noexcept
    cdef uint32_t name_function(self, uint32_t number, bytes digest, str name, str module) except? 0
    cdef uint32_t options_number(self, options) except? 0xFFFFFFFF
    cdef uint32_t known_options_number(self, options) except? 0xFFFFFFFF
    cdef uint32_t name_options(self, tuple key, options) except? 0xFFFFFFFF
    cdef submitted(
        self, double at, uint32_t session, uint32_t function, uint64_t first, uint64_t stop, options,
        uint32_t argument_bytes,
    )
    cdef handed(
        self, uint32_t session, uint32_t function, uint32_t agent, uint64_t first, uint64_t stop, uint32_t attempt
    )
    cdef failures_among(self, object run, uint32_t session, uint32_t agent, list segments, bytearray fates)
    cdef parts(self, run, uint32_t session)
    cdef results(self, object run, uint32_t session, uint32_t agent, list segments, bytearray fates)
    cdef ended(self, uint32_t session, uint64_t task, uint32_t attempt, int status, uint32_t function)
    cdef nodes(self, uint32_t session, uint32_t function, uint64_t first, uint64_t stop, uint64_t graph, edges)
