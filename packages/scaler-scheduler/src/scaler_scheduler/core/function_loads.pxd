from libc.stdint cimport int64_t, uint32_t
from scaler_scheduler.core.duration_histogram cimport DurationHistogram
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.states cimport STATUSES

cdef enum:
    NO_NUMBER = 0xFFFFFFFF
    UNKNOWN_DURATION_US = 10000  # as long as the horizon: one such task waits for each slot

cdef class FunctionLoad:
    cdef readonly bytes digest
    cdef readonly str name
    cdef readonly str module
    cdef readonly object key
    cdef public double duration_us
    cdef public int64_t samples
    cdef readonly double total_us
    cdef readonly double cpu_us
    cdef readonly DurationHistogram durations
    cdef readonly DurationHistogram waits
    cdef public double waiting_us
    cdef public double dependencies_us
    cdef public double fetching_us
    cdef public double loading_us
    cdef public double storing_us
    cdef public int64_t unfinished
    cdef int64_t outcomes[STATUSES]
    cdef uint32_t number
    cdef uint32_t recording

    cpdef bint is_called(self, str name)
    cpdef observe(self, double total_us, int64_t number, double cpu_us=*)
    cdef add_parts(self, FunctionLoad other)

    cdef inline uint32_t named(self, Recorder events) except? 0:
        """Its number in event records, said what it means once in each recording."""
        if self.recording != events.recording:
            self.number = events.name_function(self.number, self.digest, self.name, self.module)
            self.recording = events.recording
        return self.number

    cdef inline uint32_t estimate(self) noexcept:
        if self.samples == 0:
            return UNKNOWN_DURATION_US
        if self.duration_us < 1.0:
            return 1
        if self.duration_us > 4.0e9:
            return 4000000000
        return <uint32_t> self.duration_us
