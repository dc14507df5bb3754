"""Positions at which the text of a task begins and ends in the pipes that are stdout and stderr of its process.

The end of what was written is what the agent has read so far and what is still in the pipe. As system calls take as long
as a small task, one of them tells that nothing was written to either pipe: the agent gives the process an epoll
descriptor that contains the reading ends.
"""

from libc.stdint cimport uint64_t
from scaler_worker.board cimport Board, Printed

cdef extern from *:
    """
    #include <stdio.h>
    #include <sys/epoll.h>
    #include <sys/ioctl.h>
    #include <time.h>
    static inline int scaler_unread(int fd) { int count; return ioctl(fd, FIONREAD, &count) ? -1 : count; }
    static inline int scaler_has_unread(int fd) { struct epoll_event event; return epoll_wait(fd, &event, 1, 0) != 0; }
    static inline void scaler_pause(void) { struct timespec time = {0, 50000}; nanosleep(&time, NULL); }
    static inline void scaler_flush_stdout(void) { fflush(stdout); }
    static inline void scaler_buffer_lines(void) { setvbuf(stdout, NULL, _IOLBF, BUFSIZ); }
    """
    int scaler_unread(int fd) noexcept nogil
    bint scaler_has_unread(int fd) noexcept nogil
    void scaler_pause() noexcept nogil
    void scaler_flush_stdout() noexcept nogil
    void scaler_buffer_lines() noexcept nogil

cdef enum:
    STDOUT = 1
    STDERR = 2
    QUICK_TRIES = 100  # to look whether the agent is reading, which takes it a microsecond
    TRIES = 1000  # then with pauses of 50 us: the agent may have lost its processor meanwhile


cdef struct OutputDescriptors:  # -1: unknown
    int stdout
    int stderr
    int unread  # has something to read while one of the pipes has
    uint64_t stdout_reading  # what the board said of a read that did not end while this process waited; 0: all ended
    uint64_t stderr_reading


cdef inline bint take_printed(Board board, OutputDescriptors* descriptors, Printed* printed) noexcept:
    """Find the text since the last mark. False: there is none."""
    if not may_have_printed(board, descriptors):
        return False
    printed.stdout_start, printed.stderr_start = board.mark(STDOUT), board.mark(STDERR)
    printed.stdout_end = written(board, STDOUT, descriptors.stdout, &descriptors.stdout_reading)
    printed.stderr_end = written(board, STDERR, descriptors.stderr, &descriptors.stderr_reading)
    return printed.stdout_end > printed.stdout_start or printed.stderr_end > printed.stderr_start


cdef inline void mark_printed(Board board, Printed* printed) noexcept:
    """The tasks that follow have not written this."""
    board.set_mark(STDOUT, printed.stdout_end)
    board.set_mark(STDERR, printed.stderr_end)


cdef inline bint may_have_printed(Board board, OutputDescriptors* descriptors) noexcept:
    cdef uint64_t stdout_read = board.reading(STDOUT), stderr_read = board.reading(STDERR)
    if descriptors.unread < 0:
        return False
    if stdout_read != 2 * board.mark(STDOUT) or stderr_read != 2 * board.mark(STDERR):
        return True
    if scaler_has_unread(descriptors.unread):
        return True
    return board.reading(STDOUT) != stdout_read or board.reading(STDERR) != stderr_read


cdef inline uint64_t written(Board board, int stream, int descriptor, uint64_t* stuck) noexcept:
    """Return how much has been written to this stream; if that is not known, because a task has closed descriptors or
    the agent is stopped: what was known before. ``stuck``: the read that has not ended, for which the tasks that follow
    do not wait again; a task may also have written to the board that the agent reads."""
    cdef uint64_t seen = 0
    cdef int unread = 0, attempt
    for attempt in range(TRIES):  # until no read of the agent falls between the two numbers
        if attempt >= QUICK_TRIES:
            scaler_pause()
        seen = board.reading(stream)
        if seen & 1:
            if seen == stuck[0]:
                break
            continue
        unread = scaler_unread(descriptor)
        if unread < 0:
            break
        if seen == board.reading(stream):
            stuck[0] = 0
            return max(seen // 2 + unread, board.mark(stream))
    if seen & 1:
        stuck[0] = seen
    return board.mark(stream)
