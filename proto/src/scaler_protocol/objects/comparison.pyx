# cython: language_level=3, boundscheck=False, wraparound=False
"""Comparison of bytes in memory. See comparison.pyi."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcmp


def same(first, second):
    cdef Py_buffer one, other
    cdef bint equal = False
    PyObject_GetBuffer(first, &one, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(second, &other, PyBUF_SIMPLE)
        try:
            if one.len == other.len:
                with nogil:
                    equal = memcmp(one.buf, other.buf, one.len) == 0
        finally:
            PyBuffer_Release(&other)
    finally:
        PyBuffer_Release(&one)
    return equal
