from libc.stdint cimport int64_t


cdef class Level:
    cdef int64_t depth
    cdef int64_t priority
    cdef dict clients  # a deque of runs by session
    cdef object turns  # a deque of these; the first is the next to run

    cdef object append(self, object run)
    cdef object appendleft(self, object run)
    cdef object end_turn(self, object run, Py_ssize_t index=*)
    cdef object pop(self)
    cdef object remove(self, session, tasks, list removed)
    cdef list all_runs(self)
    cdef bint precedes(self, int64_t depth, int64_t priority) noexcept


cdef class TaskQueue:
    cdef list _levels  # the first is the next to run
    cdef public int64_t count
    cdef readonly dict environments  # by serializer

    cpdef object push(self, object run)
    cpdef object push_front(self, object run)
    cpdef object take(self, int64_t limit)
    cpdef object take_in(self, str environment, int64_t limit)
    cpdef object first_in(self, str environment, int64_t deeper_than)
    cpdef str environment_of(self, object run)
    cdef Py_ssize_t place_in(self, Level level, str environment)
    cdef object take_from(self, Py_ssize_t position, Py_ssize_t index, int64_t limit)
    cdef object first(self, int64_t deeper_than)
    cdef Level level(self, object run)
    cdef object take_last(self, int64_t limit)
    cdef int64_t counted(self) except -1
