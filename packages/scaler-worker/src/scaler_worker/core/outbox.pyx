# cython: language_level=3
"""The effects that a core has asked for. See outbox.pyi for the contract."""

cimport cython


@cython.final
cdef class Outbox:
    def __init__(self):
        self._effects = []

    cpdef object add(self, effect):
        self._effects.append(effect)

    cpdef object extend(self, effects):
        self._effects.extend(effects)

    def last(self):
        return self._effects[-1] if self._effects else None

    cpdef list take(self):
        effects = self._effects
        self._effects = []
        return effects
