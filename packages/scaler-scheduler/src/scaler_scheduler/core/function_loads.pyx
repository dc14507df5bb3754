# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The durations of the tasks of a function, and their number. See function_loads.pyi for the contract."""

from cython cimport final
from libc.stdint cimport int64_t
from scaler_scheduler.core.duration_histogram cimport DurationHistogram
from scaler_scheduler.core.function_keys import key_of
from scaler_scheduler.core.states cimport CANCELLED, STATUSES, SUCCESS, SUCCESS_LARGE


@final
cdef class FunctionLoad:
    def __init__(self, bytes digest, str name, str module=""):
        self.digest = digest
        self.name = name
        self.module = module
        self.key = key_of(name, module)
        self.number = NO_NUMBER
        self.durations, self.waits = DurationHistogram(), DurationHistogram()
        for index in range(STATUSES):
            self.outcomes[index] = 0

    def outcome(self, int status):
        return self.outcomes[status]

    @property
    def finished(self):
        cdef int64_t total = 0
        for index in range(STATUSES):
            total += self.outcomes[index]
        return total

    def figures(self):
        cdef int64_t succeeded = self.outcomes[SUCCESS] + self.outcomes[SUCCESS_LARGE]
        return self.unfinished, self.finished, succeeded, self.outcomes[CANCELLED], self.total_us

    def parts(self):
        return self.dependencies_us, self.waiting_us, self.fetching_us, self.loading_us, self.storing_us

    cpdef bint is_called(self, str name):
        return name == self.name or (self.module != "" and name == f"{self.module}.{self.name}")

    cpdef observe(self, double total_us, int64_t number, double cpu_us=0.0):
        """Results that took ``total_us`` together arrived: recent ones count more, many at once count fully."""
        cdef double mean = total_us / number
        cdef double weight = 1.0 if self.samples == 0 else (0.9 if number >= 16 else 1.0 - 0.87 ** number)
        self.duration_us += weight * (mean - self.duration_us)
        self.total_us += total_us
        self.cpu_us += cpu_us
        self.samples += number

    cdef add_parts(self, FunctionLoad other):
        """Add its parts and distributions, without its ``total_us``."""
        self.waiting_us += other.waiting_us
        self.dependencies_us += other.dependencies_us
        self.fetching_us += other.fetching_us
        self.loading_us += other.loading_us
        self.storing_us += other.storing_us
        self.durations.merge(other.durations)
        self.waits.merge(other.waits)

    @property
    def estimate_us(self):
        return self.estimate()


def together(loads):
    cdef FunctionLoad load, total = FunctionLoad(b"", "")
    for load in loads:
        total.unfinished += load.unfinished
        for index in range(STATUSES):
            total.outcomes[index] += load.outcomes[index]
        if load.samples:  # a client may have very many functions that have not run yet
            total.total_us += load.total_us
            total.cpu_us += load.cpu_us
            total.add_parts(load)
    return total
