from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from scaler_protocol.transport.descriptors cimport Part
from scaler_protocol.transport.frame_cipher cimport FrameCipher


cdef class ZmtpConnection:
    cdef object __weakref__
    cdef readonly int fd
    cdef readonly bint is_ready
    cdef readonly bint has_ended
    cdef readonly bint is_cut
    cdef readonly bytes identity
    cdef readonly bytes user
    cdef readonly bint was_refused
    cdef object curve  # the handshake, with keys
    cdef FrameCipher cipher  # once that is complete
    cdef bytes own_greeting
    cdef tuple counterparts
    cdef object socket
    cdef object process  # that made it: a forked child closes its own descriptors, and nothing else
    cdef int epoll
    cdef readonly bint is_limited
    # Received
    cdef bint was_heard
    cdef readonly bint has_far_process  # its kernel is asked for signs of life
    cdef bint is_skipping  # a message of a limited connection
    cdef uint64_t to_skip  # of a frame
    cdef uint64_t skipped
    cdef list messages
    cdef Py_ssize_t taken
    cdef bint is_drained  # the next look would be for nothing
    cdef uint8_t greeting[64]
    cdef int greeting_size
    cdef uint8_t head[9]
    cdef int head_size
    cdef bytes body
    cdef Py_ssize_t filled
    cdef Py_ssize_t length
    cdef list frames
    cdef uint64_t size
    cdef uint64_t size_limit  # of a message
    cdef bint is_publisher  # what subscribes may come as a command
    # Waiting to be written
    cdef object waiting
    cdef Py_ssize_t written
    cdef readonly uint64_t waiting_bytes
    cdef uint64_t waiting_limit
    cdef uint64_t full_waiting_limit  # of a connection that is not limited
    cdef bint may_lack_acknowledgements  # not, if nothing was written since there were all

    cdef bint is_acknowledged(self) noexcept
    cdef list next_message(self)
    cdef bint pull(self) except -1
    cdef Py_ssize_t wanted(self)
    cdef int feed(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef int begin(self, bytes properties) except -1
    cdef int check_greeting(self) except -1
    cdef int begin_frame(self) except -1
    cdef int skip_frame(self, uint64_t length) except -1
    cdef bint note_skipped(self, uint64_t size) except -1
    cdef int end_skipped_frame(self) except -1
    cdef int end_frame(self) except -1
    cdef int open_frame(self, bytes sealed) except -1
    cdef int skip_opened_frame(self, uint8_t flags, uint64_t size) except -1
    cdef int end_message(self) except -1
    cdef int on_command(self, bytes command) except -1
    cdef int on_handshake(self, bytes command) except -1
    cdef int on_properties(self, bytes command, Py_ssize_t start) except -1
    cdef int write(self, object frames, uint8_t flags) except -1
    cdef list sealed(self, object frames, uint8_t flags)
    cdef int write_frames(self, object frames, uint8_t flags, uint8_t more) except -1
    cdef int write_parts(self, Part* parts, Py_ssize_t count, uint64_t total) except -1
    cdef int keep(self, Part* parts, Py_ssize_t count, uint64_t skip, uint64_t total) except -1
    cdef int flush(self) except -1
    cdef int cut(self) except -1
    cdef void end(self) noexcept
    cdef int fail(self) except -1
    cdef void watch_again(self) noexcept
