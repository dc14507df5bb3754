# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""See prompt_wait.pyi. Between two messages nothing of this is Python."""

import logging

from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, errno
from libc.math cimport INFINITY, ceil
from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <time.h>
    #define SCALER_EVENTS 64
    #if defined(__linux__)
    #include <sys/epoll.h>
    typedef struct epoll_event scaler_event;
    static int scaler_epoll_wait(int fd, scaler_event *events, int milliseconds) {
        return epoll_wait(fd, events, SCALER_EVENTS, milliseconds);
    }
    static int scaler_event_fd(const scaler_event *event) { return event->data.fd; }
    static uint32_t scaler_event_mask(const scaler_event *event) { return event->events; }
    static double scaler_clock(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
    }
    #else
    /* Commands that serve run on Linux. */
    typedef struct { int unused; } scaler_event;
    static int scaler_epoll_wait(int fd, scaler_event *events, int milliseconds) { errno = ENOSYS; return -1; }
    static int scaler_event_fd(const scaler_event *event) { return -1; }
    static uint32_t scaler_event_mask(const scaler_event *event) { return 0; }
    static double scaler_clock(void) { return 0; }
    #endif
    """
    enum:
        SCALER_EVENTS
    ctypedef struct scaler_event:
        pass
    int scaler_epoll_wait(int fd, scaler_event* events, int milliseconds) nogil
    int scaler_event_fd(const scaler_event* event) nogil
    uint32_t scaler_event_mask(const scaler_event* event) nogil
    double scaler_clock() nogil

NEVER = float("inf")


cdef class Alarm:
    cdef public double at
    cdef readonly object ring

    def __init__(self, ring):
        self.ring = ring
        self.at = INFINITY

    def set(self, at):
        self.at = INFINITY if at is None else <double> at


cdef class PromptWait:
    cdef public bint is_asked
    cdef object _epoll
    cdef int _fd
    cdef dict _served
    cdef list _alarms

    def __init__(self, epoll):
        self._epoll = epoll
        self._fd = epoll.fileno()
        self._served = {}
        self._alarms = []

    def serve(self, int fd, serve):
        is_new = fd not in self._served
        self._served[fd] = serve
        return is_new

    def forget(self, int fd):
        return self._served.pop(fd, None) is not None

    def add_alarm(self, Alarm alarm):
        self._alarms.append(alarm)

    def wait(self, double deadline):
        cdef scaler_event events[SCALER_EVENTS]
        cdef int count, index, error, milliseconds
        cdef double now = scaler_clock()
        cdef list ready = []
        self.is_asked = False
        while True:
            milliseconds = _milliseconds(self.earliest(deadline) - now)
            with nogil:
                count = scaler_epoll_wait(self._fd, events, milliseconds)
                error = errno
            if count < 0:
                if error != EINTR:
                    raise OSError(error, "epoll_wait")
                PyErr_CheckSignals()
            for index in range(count):
                fd = scaler_event_fd(&events[index])
                serve = self._served.get(fd)
                if serve is None:
                    ready.append((fd, scaler_event_mask(&events[index])))
                else:
                    _call(serve)
            now = scaler_clock()
            self.ring(now)
            if ready or self.is_asked or now >= deadline:
                return ready

    cdef double earliest(self, double until):
        cdef Alarm alarm
        for alarm in self._alarms:
            if alarm.at < until:
                until = alarm.at
        return until

    cdef int ring(self, double now) except -1:
        cdef Alarm alarm
        for alarm in self._alarms:
            if now >= alarm.at:
                alarm.at = INFINITY
                _call(alarm.ring)
        return 0


cdef int _milliseconds(double seconds) noexcept:
    """Round up, because a thread that wakes too early waits again. Return -1 for infinity."""
    if seconds == INFINITY:
        return -1
    return <int> ceil(min(max(seconds, 0.0) * 1000.0, 1e9))


cdef int _call(serve) except -1:
    try:
        serve()
    except Exception:  # as asyncio does: the others are still called
        logging.exception("Exception in a callback of the event loop")
    return 0
