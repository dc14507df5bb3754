from libc.stdint cimport uint64_t


cdef uint64_t monotonic_ns() noexcept nogil
cdef uint64_t process_cpu_ns() noexcept nogil
