from scaler_protocol.transport.zmtp cimport ZmtpConnection


cdef class ZmtpListener:
    cdef readonly int fd
    cdef readonly bint other_is_ready
    cdef readonly int lost_count
    cdef int other_fd
    cdef object epoll
    cdef object tell_lost
    cdef dict listeners  # of sockets that listen, by descriptor
    cdef dict connections  # by descriptor, theirs or that of their process
    cdef dict processes  # descriptors of processes, by that of the connection
    cdef dict peers  # by identity
    cdef dict half_open  # deadlines of those that have not shaken hands, by descriptor; the oldest come first
    cdef object timer
    cdef int spare_fd
    cdef object user

    cdef list receive_many(self)
    cdef object send(self, object peer, object frames)
    cdef int serve(self, int fd, list messages) except -1
    cdef int take_from(self, ZmtpConnection connection, list messages) except -1
    cdef int add_messages(self, ZmtpConnection connection, list messages) except -1
