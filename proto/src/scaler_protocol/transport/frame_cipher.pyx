# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""See frame_cipher.pyi."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    NUMBER_SIZE = 8
    HEAD_SIZE = 16  # the name of the command, and the number
    SMALLEST = HEAD_SIZE + 16 + 1  # a tag and the flags

cdef bytes _NAME = b"\x07MESSAGE"


class CurveError(ValueError):
    """The other end has sent what no holder of the right keys sends."""


cdef class FrameCipher:
    def __init__(self, key, sent_prefix, received_prefix, sent, received):
        from nacl import bindings, exceptions

        self.seal_box = bindings.crypto_box_afternm
        self.open_box = bindings.crypto_box_open_afternm
        self.box_error = exceptions.CryptoError
        self.key = key
        self.sent_prefix = sent_prefix
        self.received_prefix = received_prefix
        self.sent = sent
        self.received = received

    cdef bytes seal(self, uint8_t flags, object frame):
        """The frame that carries this one."""
        cdef Py_buffer view
        cdef bytes content, number
        PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
        try:
            content = PyBytes_FromStringAndSize(NULL, view.len + 1)
            PyBytes_AS_STRING(content)[0] = <char> flags
            memcpy(PyBytes_AS_STRING(content) + 1, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        self.sent += 1
        number = big_endian(self.sent)
        return _NAME + number + self.seal_box(content, self.sent_prefix + number, self.key)

    cdef bytes open(self, bytes sealed):
        """The flags and the frame. Raises CurveError for what the other end has not sealed as its next."""
        cdef uint64_t number = 0
        cdef int index
        if len(sealed) < SMALLEST or sealed[:NUMBER_SIZE] != _NAME:
            raise CurveError("A frame is not sealed.")
        for index in range(NUMBER_SIZE, HEAD_SIZE):
            number = number << 8 | <uint8_t> PyBytes_AS_STRING(sealed)[index]
        if number <= self.received:
            raise CurveError("A frame comes twice, or too late.")
        self.received = number
        try:
            return self.open_box(sealed[HEAD_SIZE:], self.received_prefix + sealed[NUMBER_SIZE:HEAD_SIZE], self.key)
        except self.box_error as error:
            raise CurveError("A frame cannot be opened.") from error


cdef bytes big_endian(uint64_t number):
    cdef char data[NUMBER_SIZE]
    cdef int index
    for index in range(NUMBER_SIZE):
        data[index] = <char> (number >> (56 - 8 * index))
    return PyBytes_FromStringAndSize(data, NUMBER_SIZE)
