# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Looks for records without making an object of each; the layout is described in records.py."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    HEADER_SIZE = 48
    SIZE_AT = 8
    NAME = 1


def names_in(bytes records):
    cdef const uint8_t* data = records
    cdef size_t length = len(records)
    cdef size_t at = 0
    cdef uint16_t kind
    cdef uint32_t size
    cdef list found = []
    while length - at >= HEADER_SIZE:
        memcpy(&kind, data + at, 2)
        memcpy(&size, data + at + SIZE_AT, 4)
        if size < HEADER_SIZE or size > length - at:
            break
        if kind == NAME:
            found.append(records[at : at + size])
        at += size
    return b"".join(found)
