from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    STEPS_HEAD = 8  # bytes before the columns
    STEPS_ROWS = 16  # of fewer tasks, ages are as small


cdef bytes pack_steps(const uint8_t* durations, const uint8_t* ages, uint64_t count)
cdef bint is_whole(const uint8_t* data, uint64_t size, uint64_t count) noexcept nogil
cdef bint unpack_steps(
    const uint8_t* data, uint64_t size, uint64_t count, uint32_t* durations, uint32_t* ages
) noexcept nogil
