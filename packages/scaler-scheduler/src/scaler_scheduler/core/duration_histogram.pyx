# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The distribution of durations. See duration_histogram.pyi for the contract."""

from cython cimport final
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy


cdef uint64_t lower_bound(int bucket) noexcept:
    """The shortest duration of a bucket, in microseconds."""
    if bucket < 4:
        return bucket
    return (<uint64_t> (4 + (bucket & 3))) << ((bucket >> 2) - 1)


@final
cdef class DurationHistogram:
    def __dealloc__(self):
        free(self.counts)

    cdef bint reach(self, int first, int stop) noexcept:
        """Have memory for these buckets, too. False: there is none; the histogram is as before."""
        cdef int64_t* counts
        if self.counts != NULL:
            first, stop = min(first, self.first), max(stop, self.stop)
        counts = <int64_t*> calloc(stop - first, sizeof(int64_t))
        if counts == NULL:
            return False
        if self.counts != NULL:
            memcpy(counts + (self.first - first), self.counts, (self.stop - self.first) * sizeof(int64_t))
            free(self.counts)
        self.counts, self.first, self.stop = counts, first, stop
        return True

    def observe(self, uint64_t duration_us):
        self.add(duration_us)

    @property
    def count(self):
        cdef int64_t total = 0
        for index in range(self.stop - self.first):
            total += self.counts[index]
        return total

    cpdef merge(self, DurationHistogram other):
        if other.first == other.stop:
            return
        if not self.reach(other.first, other.stop):
            raise MemoryError
        for index in range(other.stop - other.first):
            self.counts[other.first - self.first + index] += other.counts[index]
        self.longest_us = max(self.longest_us, other.longest_us)

    def quantile(self, double share):
        cdef int64_t total = self.count
        cdef double rank = share * total, lower
        cdef int64_t before = 0
        cdef int bucket
        for bucket in range(self.first, self.stop):
            count = self.counts[bucket - self.first]
            if count == 1 and before + count == total:
                return <double> self.longest_us
            if count and before + count >= rank:
                lower = lower_bound(bucket)
                found = lower + (lower_bound(bucket + 1) - lower) * (rank - before) / count
                return min(found, <double> self.longest_us)
            before += count
        return 0.0

    def counts_between(self, bounds_us):
        cdef list counts = [0] * (len(bounds_us) + 1)
        cdef int place = 0, bucket
        for bucket in range(self.first, self.stop):
            while place < len(bounds_us) and lower_bound(bucket) >= <uint64_t> bounds_us[place]:
                place += 1
            counts[place] += self.counts[bucket - self.first]
        return tuple(counts)
