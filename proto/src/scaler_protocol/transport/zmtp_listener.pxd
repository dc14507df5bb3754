from scaler_protocol.transport.zmtp cimport ZmtpConnection


cdef class ZmtpListener:
    cdef readonly int fd
    cdef readonly int lost_count
    cdef readonly object unauthenticated
    cdef int unauthenticated_fd
    cdef object epoll
    cdef object tell_lost
    cdef dict connections  # by descriptor, theirs or that of their process
    cdef dict processes  # descriptors of processes, by that of the connection
    cdef dict peers  # by identity
    cdef dict silent  # for how many beats, by descriptor: those whose process is not watched
    cdef object beat  # timers
    cdef object rest
    cdef bint has_looked  # and taken messages: the descriptor tells when there is more
    cdef bint has_unauthenticated
    cdef object share
    cdef double heard_at  # when authenticated peers said something
    cdef double worked_at  # when they had work
    cdef object failure  # an exception that has ended a connection, and was not raised yet

    cdef list receive_many(self)
    cdef int raise_failure(self) except -1
    cdef int _end_failed(self, int fd) except -1
    cdef object send(self, object peer, object frames)
    cdef int serve(self, int fd, list messages) except -1
    cdef int take_from(self, ZmtpConnection connection, list messages) except -1
    cdef int add_messages(self, ZmtpConnection connection, list messages) except -1
