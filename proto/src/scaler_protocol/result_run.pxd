from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from scaler_protocol.columns cimport Column


cdef class ResultRun:
    cdef readonly bytes session
    cdef readonly uint32_t count
    cdef readonly uint32_t payload_bytes
    cdef const uint8_t* tasks
    cdef const uint8_t* attempts
    cdef const uint8_t* statuses
    cdef const uint8_t* durations
    cdef const uint8_t* cpu_times
    cdef const uint8_t* peaks  # NULL: all 0
    cdef const uint8_t* ends
    cdef const uint8_t* ages  # NULL: unknown, or in steps
    cdef const uint8_t* steps  # in place of ages; NULL: none
    cdef uint32_t steps_bytes
    cdef readonly uint16_t worker  # NO_WORKER: unknown
    cdef const uint8_t* origin
    cdef uint32_t start
    cdef bytes columns_owner
    cdef bytes payload_owner
    cdef bytes ages_owner  # also of the steps
    cdef readonly bytes parts
    cdef object view
    cdef object owner_view

    cdef uint64_t checked(self, index) except? 0
    cdef object piece(self, uint64_t row)
    cdef object column(self, const uint8_t* place, size_t size, str code)
    cdef tuple row(self, uint64_t row)
    cdef bint is_alike(self) noexcept nogil
    cdef bytes parts_of(self, uint32_t first, uint32_t last)
    cdef int spell_out(self) except -1
    cdef int take_ages(self, bytes ages) noexcept
    cdef int take_steps(self, bytes steps) noexcept
    cdef bint same(self, ResultRun other)


cdef bint are_parts(bytes parts, uint32_t count)


cdef class ResultRunBuilder:
    cdef bytes session
    cdef readonly uint32_t count
    cdef Column tasks
    cdef Column attempts
    cdef Column statuses
    cdef Column durations
    cdef Column cpu_times
    cdef Column peaks
    cdef Column ends
    cdef Column payload
    cdef bint has_peaks

    cdef int append_from(self, ResultRun run, uint64_t row) except -1
    cdef int add(
        self, uint64_t task, uint32_t attempt, uint8_t status, const uint8_t* payload, size_t size,
        uint64_t duration_us, uint64_t cpu_time_us, uint64_t memory_peak,
    ) except -1
    cdef int fill(self, ResultRun run) except -1
