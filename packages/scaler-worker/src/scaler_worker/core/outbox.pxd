cimport cython


@cython.final
cdef class Outbox:
    cdef list _effects

    cpdef object add(self, effect)
    cpdef object extend(self, effects)
    cpdef list take(self)
