# cython: language_level=3
"""The connection of a session. See connections.pyi for the contract."""


cdef class PeerConnection:
    def __init__(self, bytes session, route, link, double now):
        self.session, self.route, self.link = session, route, link
        self.is_open, self.sent_at = True, now
