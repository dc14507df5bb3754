from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    static inline int scaler_highest_bit(unsigned long long value) { return 63 - __builtin_clzll(value); }
    """
    int scaler_highest_bit(unsigned long long value) noexcept nogil

cdef enum:
    HIGHEST_BIT = 44  # a year in microseconds

cdef inline int bucket_of(uint64_t duration_us) noexcept nogil:
    """Each power of two has four buckets of equal width; below 4 us, each microsecond has its own."""
    cdef int bit
    if duration_us < 4:
        return <int> duration_us
    bit = scaler_highest_bit(duration_us)
    if bit > HIGHEST_BIT:
        return 4 * HIGHEST_BIT - 1
    return 4 * (bit - 1) + <int> ((duration_us >> (bit - 2)) & 3)

cdef class DurationHistogram:
    cdef int64_t* counts
    cdef int first
    cdef int stop
    cdef readonly uint64_t longest_us

    cdef bint reach(self, int first, int stop) noexcept
    cpdef merge(self, DurationHistogram other)

    cdef inline void add(self, uint64_t duration_us) noexcept:
        self.add_many(duration_us, 1)

    cdef inline void add_many(self, uint64_t duration_us, int64_t count) noexcept:
        cdef int bucket = bucket_of(duration_us)
        if (bucket < self.first or bucket >= self.stop) and not self.reach(bucket, bucket + 1):
            return
        self.counts[bucket - self.first] += count
        if duration_us > self.longest_us:
            self.longest_us = duration_us
