from libc.stdint cimport int64_t

cdef class ShareGroup:
    cdef readonly str name
    cdef public double weight
    cdef public int64_t worker_limit
    cdef public int64_t running
    cdef readonly double virtual_us
    cdef readonly int64_t members
    cdef double floor_us
    cdef Shares shares

    cdef inline bint is_full(self) noexcept:
        """Return whether the operator allows it no further worker."""
        return self.worker_limit > 0 and self.running >= self.worker_limit

cdef class Share:
    cdef readonly ShareGroup group
    cdef public double weight
    cdef readonly double virtual_us
    cdef readonly double used_us

    cpdef begin_turn(self)
    cpdef charge(self, double us)
    cpdef settle(self, double charged_us, double measured_us)
    cpdef lift(self, double group_us, double us)
    cpdef bint precedes(self, Share other) except -1

    cdef inline bint is_before(self, Share other) noexcept:
        if self.group.virtual_us != other.group.virtual_us:
            return self.group.virtual_us < other.group.virtual_us
        return self.virtual_us < other.virtual_us

cdef class Shares:
    cdef readonly dict groups
    cdef readonly dict weights
    cdef readonly dict worker_limits
    cdef double floor_us
    cdef int64_t turns
