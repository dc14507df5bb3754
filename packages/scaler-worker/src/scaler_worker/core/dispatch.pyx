# cython: language_level=3
"""The effect that sends tasks to a worker process. One is made for each message, so it is compiled. See dispatch.pyi."""

cimport cython


@cython.freelist(16)
cdef class DispatchTasks:
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
        if type(other) is not DispatchTasks:
            return NotImplemented
        return fields_of(self) == fields_of(other)

    def __repr__(self):
        return "DispatchTasks(number={!r}, tasks={!r}, objects={!r}, values={!r}, watermark={!r})".format(*fields_of(self))


cdef tuple fields_of(DispatchTasks effect):
    return effect.number, effect.tasks, effect.objects, effect.values, effect.watermark
