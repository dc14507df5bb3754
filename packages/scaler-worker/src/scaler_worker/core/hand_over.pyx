# cython: language_level=3
"""The wish to send tasks to a processor: made for each message, so it costs little. See hand_over.pyi."""

cimport cython


@cython.freelist(16)
cdef class HandOver:
    cdef public object number
    cdef public object tasks
    cdef public list objects
    cdef public object values
    cdef public object watermark

    def __init__(self, number, tasks, list objects=None, values=None, watermark=0):
        self.number = number
        self.tasks = tasks
        self.objects = [] if objects is None else objects
        self.values = values
        self.watermark = watermark

    def __eq__(self, other):
        if type(other) is not HandOver:
            return NotImplemented
        return fields_of(self) == fields_of(other)

    def __repr__(self):
        return "HandOver(number={!r}, tasks={!r}, objects={!r}, values={!r}, watermark={!r})".format(*fields_of(self))


cdef tuple fields_of(HandOver effect):
    return effect.number, effect.tasks, effect.objects, effect.values, effect.watermark
