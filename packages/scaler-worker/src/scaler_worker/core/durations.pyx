# cython: language_level=3
"""The durations of the tasks of a function, as far as known. See durations.pyi for the contract."""

cdef double OVERHEAD_SECONDS = 1e-6  # of each task: claiming it, loading its arguments, writing its result
cdef Py_ssize_t FUNCTION_LIMIT = 10_000


cdef class Durations:
    def __init__(self):
        self._seconds = {}

    def estimate(self, function):
        return self._seconds.get(function)

    cdef double known(self, object function) except? -2:
        """-1: unknown."""
        seconds = self._seconds.get(function)
        return -1.0 if seconds is None else <double> seconds

    cpdef object add(self, function, long count, double total_seconds):
        cdef double mean = total_seconds / count + OVERHEAD_SECONDS
        cdef double before = self.known(function)
        if before >= 0:
            mean = before + (0.2 if count == 1 else 1.0 - 0.8 ** min(count, 32)) * (mean - before)
            del self._seconds[function]  # the one that was used last is the last to go
        self._seconds[function] = mean
        if len(self._seconds) > FUNCTION_LIMIT:
            del self._seconds[next(iter(self._seconds))]
