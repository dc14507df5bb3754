from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from scaler_protocol.columns cimport Column


cdef class TaskRun:
    cdef readonly bytes session
    cdef readonly bytes function
    cdef readonly str function_name
    cdef readonly bytes serializer
    cdef readonly tuple keywords
    cdef readonly object options
    cdef readonly uint64_t first_task
    cdef readonly uint32_t count
    cdef readonly uint32_t attempt
    cdef readonly uint32_t arity
    cdef readonly uint32_t payload_bytes
    cdef const uint8_t* ends
    cdef const uint8_t* marks  # one byte per slot, 1: a reference; NULL: none
    cdef const uint8_t* origin  # what ends count from
    cdef uint32_t start  # of the first slot, from the origin
    cdef bytes columns_owner
    cdef bytes payload_owner
    cdef object view

    cdef object piece(self, uint64_t index)
    cdef uint64_t checked_task(self, task_index) except? 0
    cdef uint64_t shape_bytes(self) except? 0
    cdef TaskRun copy(self)
    cdef bint same_shape(self, TaskRun other)
    cdef bint same_columns(self, TaskRun other)


cdef class TaskRunBuilder:
    cdef bytes session
    cdef bytes function
    cdef str function_name
    cdef bytes serializer
    cdef tuple keywords
    cdef object options
    cdef public uint64_t first_task  # may be set until build: a client numbers its tasks when a batch leaves
    cdef uint32_t arity
    cdef readonly uint32_t count
    cdef Column ends
    cdef Column marks  # empty until the first reference
    cdef Column payload

    cdef int append_node(
        self, const int64_t[::1] slots, int64_t start, int64_t stop, const int64_t[::1] tasks, list data
    ) except -1
    cdef int check_room(self) except -1
    cdef int add(self, object slot) except -1
    cdef int add_reference(self, object key) except -1
    cdef int add_key(self, const uint8_t* owner, uint64_t number) except -1
    cdef int fill(self, TaskRun run) except -1
