# cython: language_level=3, cdivision=True
"""Sharing of the workers among clients, by running time. See fair_shares.pyi for the contract."""

from cython cimport final
from libc.math cimport INFINITY
from libc.stdint cimport int64_t


@final
cdef class ShareGroup:
    def __init__(self, Shares shares, str name, double weight, int64_t worker_limit):
        self.shares = shares
        self.name = name
        self.weight = weight
        self.worker_limit = worker_limit
        self.virtual_us = shares.floor_us

    def add_member(self):
        self.members += 1


@final
cdef class Share:
    def __init__(self, ShareGroup group, double weight):
        self.group = group
        self.weight = weight
        self.virtual_us = group.floor_us

    cpdef begin_turn(self):
        """The share is served. Shares that become active later begin here."""
        cdef Shares shares = self.group.shares
        shares.floor_us = max(shares.floor_us, self.group.virtual_us)
        self.group.floor_us = max(self.group.floor_us, self.virtual_us)

    cpdef charge(self, double us):
        self.group.virtual_us += us / self.group.weight
        self.virtual_us += us / self.weight

    cpdef settle(self, double charged_us, double measured_us):
        self.used_us += measured_us
        self.charge(measured_us - charged_us)

    cpdef lift(self, double group_us, double us):
        """The share becomes active: the time that it was away earns nothing. Infinite: no other share is active."""
        self.group.virtual_us = max(
            self.group.virtual_us, self.group.shares.floor_us if group_us == INFINITY else group_us
        )
        self.virtual_us = max(self.virtual_us, self.group.floor_us if us == INFINITY else us)

    cpdef bint precedes(self, Share other) except -1:
        return self.is_before(other)


@final
cdef class Shares:
    def __init__(self, weights=None, worker_limits=None):
        self.weights = dict(weights or {})
        self.worker_limits = dict(worker_limits or {})
        self.groups = {}

    def check(self, shares):
        """Assert that groups and the shares of all clients agree."""
        cdef dict members = {}
        cdef Share share
        for share in shares:
            assert self.groups.get(share.group.name) is share.group, share.group.name
            members[share.group.name] = members.get(share.group.name, 0) + 1
            assert share.virtual_us == share.virtual_us and abs(share.virtual_us) != INFINITY
        assert members == {name: (<ShareGroup> group).members for name, group in self.groups.items()}, members

    def join(self, str name, double weight=1.0):
        cdef ShareGroup group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = ShareGroup(
                self, name, self.weights.get(name, 1.0), self.worker_limits.get(name, 0)
            )
        group.members += 1
        return Share(group, weight)

    def leave(self, Share share):
        cdef ShareGroup group = share.group
        group.members -= 1
        if group.members == 0 and self.groups.get(group.name) is group:
            del self.groups[group.name]
