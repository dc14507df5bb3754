# cython: language_level=3
"""The clocks of a worker process, in nanoseconds. Only compiled modules use them."""

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <time.h>
    static inline uint64_t scaler_clock(clockid_t id) {
        struct timespec t;
        clock_gettime(id, &t);
        return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
    }
    static inline uint64_t scaler_monotonic(void) { return scaler_clock(CLOCK_MONOTONIC); }
    static inline uint64_t scaler_process_cpu(void) { return scaler_clock(CLOCK_PROCESS_CPUTIME_ID); }
    """
    uint64_t scaler_monotonic() noexcept nogil
    uint64_t scaler_process_cpu() noexcept nogil


cdef uint64_t monotonic_ns() noexcept nogil:
    return scaler_monotonic()


cdef uint64_t process_cpu_ns() noexcept nogil:
    return scaler_process_cpu()
