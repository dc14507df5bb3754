# cython: language_level=3
"""See timer.pyi."""

import os

from scaler_protocol.transport.descriptors cimport new_timer, set_timer


cdef class Timer:
    cdef readonly int fd

    def __init__(self):
        self.fd = new_timer()
        if self.fd < 0:
            raise OSError("Cannot create a timer: this process has no descriptor left. Raise the limit (ulimit -n).")

    def set(self, double seconds):
        if set_timer(self.fd, max(seconds, 1e-9)) < 0:
            raise OSError("This timer is closed.")

    def take(self):
        try:
            return bool(os.read(self.fd, 8))
        except BlockingIOError:
            return False

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
