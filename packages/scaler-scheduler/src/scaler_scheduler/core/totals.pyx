# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The numbers of tasks of all tables together. See totals.pyi for the contract."""

from cython cimport final
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.states cimport STATUSES


@final
cdef class Totals:
    def __cinit__(self):
        self.events = Recorder()
        for index in range(STATUSES):
            self.outcomes[index] = 0

    def outcome(self, int status):
        return self.outcomes[status]
