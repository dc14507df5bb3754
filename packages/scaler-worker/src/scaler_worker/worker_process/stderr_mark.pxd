from libc.stdint cimport uint64_t
from scaler_worker.board cimport Board

cdef extern from *:
    """
    #include <sys/ioctl.h>
    static inline int scaler_unread_stderr(void) { int count; return ioctl(2, FIONREAD, &count) ? -1 : count; }
    """
    int scaler_unread_stderr() noexcept nogil

cdef enum:
    STDERR_TRIES = 100  # to look whether the agent is reading stderr, which takes it a microsecond


cdef inline void mark_stderr(Board board) noexcept:
    """Note that the tasks that follow have not written the text that is in stderr now."""
    cdef uint64_t seen = 0
    cdef int unread = 0, attempt
    for attempt in range(STDERR_TRIES):  # until no read of the agent falls between the two numbers
        seen = board.stderr_read()
        if seen & 1 and attempt < STDERR_TRIES - 1:
            continue
        unread = scaler_unread_stderr()
        if unread < 0:  # a task has closed it or put something else in its place
            return
        if seen == board.stderr_read():
            break
    board.mark_stderr(seen // 2 + unread)
